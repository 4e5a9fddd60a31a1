import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, it } from '@jest/globals';
import { createClient, type RedisClientType } from 'redis';
import * as ours from '../../lib/index.js';
import { RedisSharedStore } from '../../lib/redis/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { bodyOf, signIn } from '../guards/signed-in.js';
import { copyOf } from '../login/journey.js';
import { ROOT } from '../structure/readme.js';
import { COOKIE_SECRET, startHost, type Host } from '../support/host.js';
import { loggedLines } from '../support/logged-lines.js';
import { describeWithRedis, RedisServer } from '../support/redis.js';
import { startSandbox } from '../support/sandbox.js';
import { Visitor } from '../support/visitor.js';

const logged = loggedLines();

type Version = Pick<typeof ours, 'ExhibitorModule' | 'TokenService'>;

const folder = mkdtempSync(join(ROOT, 'test', '.readme-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** A build of the package that differs in one place. */
async function versionWith(name: string, file: string, [from, to]: [string, string]): Promise<Version> {
  const lib = join(folder, name);
  cpSync(join(ROOT, 'lib'), lib, { recursive: true });
  const text = readFileSync(join(lib, file), 'utf8');
  expect(text.split(from)).toHaveLength(2);
  writeFileSync(join(lib, file), text.replace(from, to));
  return (await import(join(lib, 'index.ts'))) as Version;
}

/** A rolling deployment: processes of both versions behind one address, with one Redis. */
describeWithRedis('two versions of the package', (path) => {
  let redis: RedisServer;
  let client: RedisClientType;
  let sandbox: ExhibitorSandbox;
  /** Its sealed values in the store have another form. */
  let newerStore: Version;
  /** Its cookies have another form. */
  let newerCookies: Version;
  const hosts: Host[] = [];

  beforeAll(async () => {
    [redis, sandbox, newerStore, newerCookies] = await Promise.all([
      RedisServer.start(path),
      startSandbox(),
      versionWith('newer-store', 'store/shared-values.service.ts', ['const FORM = 1;', 'const FORM = 2;']),
      versionWith('newer-cookies', 'store/sealer.service.ts', [
        '`nestjs-exhibitor:${purpose}`',
        '`nestjs-exhibitor:2:${purpose}`',
      ]),
    ]);
    client = createClient({ url: redis.url });
    await client.connect();
    sandbox.signInAs('sam.several');
  });
  afterEach(async () => {
    await Promise.all(hosts.splice(0).map((host) => host.close()));
    await client.flushAll();
    sandbox.clearRequests();
  });
  afterAll(async () => {
    client?.destroy();
    await Promise.all([redis?.stop(), sandbox?.stop()]);
  });

  async function start(version: Version, callback?: string): Promise<Host> {
    const host = await startHost({
      controllers: [],
      module: (given) => version.ExhibitorModule.forRoot(given),
      options: (own) => ({
        tenant: sandbox.tenantOptions('acme', { redirectUri: callback ?? own }),
        secrets: [COOKIE_SECRET],
        store: new RedisSharedStore(client),
        logoutCheck: { ttl: 0 },
        routes: 'auth',
      }),
    });
    hosts.push(host);
    return host;
  }

  /** The callback of a login, where the provider has sent the browser. */
  async function arrival(visitor: Visitor, { url }: Host): Promise<string> {
    const isCallback = ({ pathname }: URL): boolean => pathname === '/auth/callback';
    return (await visitor.follow(`${url}/auth/login`, isCallback)).location ?? '';
  }

  const tokenRequests = (): number =>
    sandbox.requests.filter(({ body }) => body['grant_type'] === 'client_credentials').length;
  const tokenOf = async ({ app }: Host, { TokenService }: Version): Promise<string> =>
    (await app.get<ours.TokenService>(TokenService).getToken()).accessToken;

  it('ignore tokens in a form that they do not know: each asks once, and nothing is logged', async () => {
    const [old, newer] = [await start(ours), await start(newerStore)];
    const ofOld = await tokenOf(old, ours);
    const ofNewer = await tokenOf(newer, newerStore);
    expect(ofNewer).not.toBe(ofOld);
    expect(tokenRequests()).toBe(2);
    expect(await tokenOf(await start(ours), ours)).toBe(ofOld);
    expect(await tokenOf(await start(newerStore), newerStore)).toBe(ofNewer);
    expect(tokenRequests()).toBe(2);
    expect(logged.warnings).toEqual([]);
  });

  it('share used states and logouts, whose form never changes', async () => {
    const old = await start(ours);
    const newer = await start(newerStore, old.callback);
    const visitor = new Visitor();
    const callback = await arrival(visitor, old);
    const toNewer = (address: string): string => address.replace(old.url, newer.url);
    const copy = copyOf(visitor, old);
    expect((await visitor.visit(toNewer(callback))).status).toBe(303);
    expect(bodyOf(await copy.visit(callback))).toMatchObject({ reason: 'state' });
    expect((await visitor.visit(`${old.url}/auth/me`)).status).toBe(200);

    const stolen = copyOf(visitor, old);
    expect((await visitor.visit(`${newer.url}/auth/logout`, { method: 'POST' })).status).toBe(303);
    expect((await stolen.visit(`${old.url}/auth/me`)).status).toBe(401);
  });

  it('take a cookie in a form that they do not know for none, and leave it alone', async () => {
    const old = await start(ours);
    const newer = await start(newerCookies, old.callback);
    const visitor = await signIn(sandbox, old);
    const nobody = await visitor.visit(`${newer.url}/auth/me`);
    expect([nobody.status, bodyOf(nobody)['code'], nobody.setCookies]).toEqual([401, 'unauthenticated', []]);
    expect((await visitor.visit(`${old.url}/auth/me`)).status).toBe(200);

    const other = new Visitor();
    const callback = await arrival(other, old);
    const lost = await other.visit(callback.replace(old.url, newer.url));
    expect([lost.status, bodyOf(lost)['reason'], lost.setCookies]).toEqual([401, 'state', []]);
    expect((await other.visit(callback)).status).toBe(303);
  });
});
