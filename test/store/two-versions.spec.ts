import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, it } from '@jest/globals';
import { createClient, type RedisClientType } from 'redis';
import * as ours from '../../lib/index.js';
import { RedisSharedStore } from '../../lib/redis/index.js';
import { bodyOf } from '../guards/signed-in.js';
import { copyOf } from '../login/journey.js';
import { ROOT } from '../structure/readme.js';
import { acmeOptions, startHost, type Host } from '../support/host.js';
import { useClosing, useSandbox } from '../support/lifetimes.js';
import { loggedLines } from '../support/logged-lines.js';
import { describeWithRedis, RedisServer } from '../support/redis.js';
import { Visitor } from '../support/visitor.js';

const logged = loggedLines();
const sandbox = await useSandbox();

type Version = Pick<typeof ours, 'ExhibitorModule' | 'TokenService'>;

const folder = mkdtempSync(join(ROOT, 'test', '.readme-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** A build of the package whose sealed values in the store have another form. */
async function buildNewer(): Promise<Version> {
  const lib = join(folder, 'newer');
  cpSync(join(ROOT, 'lib'), lib, { recursive: true });
  const file = join(lib, 'store/shared-values.service.ts');
  const text = readFileSync(file, 'utf8');
  expect(text).toContain('const FORM = 1;');
  writeFileSync(file, text.replace('const FORM = 1;', 'const FORM = 2;'));
  return (await import(join(lib, 'index.ts'))) as Version;
}

/** A rolling deployment: processes of both versions behind one address, with one Redis. */
describeWithRedis('two versions of the package', (path) => {
  let redis: RedisServer;
  let client: RedisClientType;
  let newerVersion: Version;
  const closing = useClosing();

  beforeAll(async () => {
    [redis, newerVersion] = await Promise.all([RedisServer.start(path), buildNewer()]);
    client = createClient({ url: redis.url });
    await client.connect();
    sandbox.signInAs('sam.several');
  });
  afterEach(async () => {
    await client.flushAll();
    sandbox.clearRequests();
  });
  afterAll(async () => {
    client?.destroy();
    await redis?.stop();
  });

  async function start(version: Version, callback?: string): Promise<Host> {
    const others = { store: new RedisSharedStore(client), logoutCheck: { ttl: 0 }, routes: 'auth' };
    const host = await startHost({
      controllers: [],
      module: (given) => version.ExhibitorModule.forRoot(given),
      options: (own) => acmeOptions(sandbox, others)(callback ?? own),
    });
    return closing(host);
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
    const [old, newer] = [await start(ours), await start(newerVersion)];
    const ofOld = await tokenOf(old, ours);
    const ofNewer = await tokenOf(newer, newerVersion);
    expect(ofNewer).not.toBe(ofOld);
    expect(tokenRequests()).toBe(2);
    expect(await tokenOf(await start(ours), ours)).toBe(ofOld);
    expect(await tokenOf(await start(newerVersion), newerVersion)).toBe(ofNewer);
    expect(tokenRequests()).toBe(2);
    expect(logged.warnings).toEqual([]);
  });

  it('share used states and logouts, whose form never changes', async () => {
    const old = await start(ours);
    const newer = await start(newerVersion, old.callback);
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
});
