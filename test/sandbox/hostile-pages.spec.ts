/** What a page of another site in the developer's browser may do to a sandbox. */
import { spawn, type ChildProcess } from 'node:child_process';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { ExhibitorSandbox } from 'nestjs-exhibitor/testing';
import { CompiledSources } from '../fleet/compile.js';
import { startSandbox } from '../support/sandbox.js';
import { eventually } from '../support/wait.js';
import { Visitor } from '../support/visitor.js';

const ROUTES = [
  '/connect/token',
  '/connect/authorize?client_id=acme-web',
  '/connect/userinfo',
  '/connect/jwks',
  '/connect/login/x',
  '/.well-known/openid-configuration',
  '/api/v1/exhibitor/event/world-2026',
  '/api/v1/exhibitor/event/world-2026/contactEmail/olga.one@example.com',
  '/sandbox',
  '/sandbox/tenants',
  '/',
];
const MIB = 1024 * 1024;

describe('the Host of a request', () => {
  let sandbox: ExhibitorSandbox;
  beforeAll(async () => {
    sandbox = await startSandbox({ hosts: ['sandbox.internal'] });
  });
  afterAll(() => sandbox?.stop());

  const statuses = (host: string): Promise<number[]> =>
    Promise.all(
      ROUTES.map(
        async (path) => (await new Visitor().visit(`${sandbox.url}${path}`, { headers: { host } })).status,
      ),
    );

  it.each([
    'rebound.example',
    'rebound.example:4010',
    'localhost.example',
    'notlocalhost',
    '10.0.0.1',
    '128.0.0.1',
    '127.0.0.1.example',
    'other.internal',
    'a b',
  ])('%j is refused on all routes', async (host) => {
    sandbox.clearRequests();
    expect(await statuses(host)).toEqual(ROUTES.map(() => 403));
    expect(sandbox.requests).toEqual([]);
  });

  it.each([
    'localhost',
    'LOCALHOST:4010',
    'acme.localhost:4010',
    '127.0.0.1',
    '127.8.9.10:80',
    '[::1]:4010',
    'sandbox.internal:4010',
  ])('%j is answered', async (host) => {
    expect(await statuses(host)).not.toContain(403);
  });
});

describe('the forms of a page', () => {
  let sandbox: ExhibitorSandbox;
  beforeAll(async () => {
    sandbox = await startSandbox();
  });
  afterAll(() => sandbox?.stop());

  const post = (path: string, size: number): Promise<Response> =>
    fetch(`${sandbox.url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: `a=${'x'.repeat(size - 2)}`,
    });

  // The provider itself takes less.
  it.each(['/', '/api/v1/exhibitor/event/world-2026', '/sandbox/faults'])(
    'may have 1 MiB at %s',
    async (path) => {
      expect((await post(path, MIB)).status).not.toBe(413);
      // The connection may be closed before the whole body was sent.
      const status = await post(path, MIB + 1).then(
        (reply) => reply.status,
        () => 413,
      );
      expect(status).toBe(413);
      expect((await fetch(`${sandbox.url}/connect/jwks`)).status).toBe(200);
    },
  );

  it('push the oldest out of what is kept', async () => {
    sandbox.clearRequests();
    for (let sent = 0; sent < 40; sent += 1) {
      await post(`/api/v1/exhibitor/event/e-${sent}`, MIB);
    }
    const kept = sandbox.requests.map(({ path }) => path);
    expect(kept.length).toBeGreaterThan(10);
    expect(kept.length).toBeLessThan(17);
    expect(kept.at(-1)).toBe('/api/v1/exhibitor/event/e-39');
  });
});

describe('the command, with little memory', () => {
  let sources: CompiledSources;
  let child: ChildProcess;
  let url = '';
  beforeAll(async () => {
    sources = CompiledSources.create([]);
    const program = sources.path('lib/bin/nestjs-exhibitor.ts');
    const flags = ['--max-old-space-size=128', program, 'sandbox', '--port', '0'];
    child = spawn(process.execPath, flags, { stdio: ['ignore', 'pipe', 'ignore'] });
    let text = '';
    child.stdout?.on('data', (chunk) => {
      text += String(chunk);
      url = /http:\/\/127\.0\.0\.1:\d+/.exec(text)?.[0] ?? '';
    });
    await eventually(() => url !== '', 20_000);
  }, 30_000);
  afterAll(() => {
    child?.kill('SIGKILL');
    sources?.remove();
  });

  it.each([
    ['63 large forms', 63, (): string => `a=${'x'.repeat(4 * MIB)}`],
    ['63 forms of 1 MiB', 63, (): string => `a=${'x'.repeat(MIB - 2)}`],
    [
      'logins with long parameters',
      800,
      (index: number): string =>
        `client_id=acme-web&redirect_uri=http://localhost/&response_type=code&scope=openid&nonce=n&state=${index}${'x'.repeat(50_000)}`,
    ],
  ])(
    'survives %s',
    async (_name, count, form) => {
      const send = async (index: number): Promise<void> => {
        const reply = fetch(`${url}/connect/authorize`, {
          method: 'POST',
          redirect: 'manual',
          headers: {
            'content-type': 'application/x-www-form-urlencoded',
            origin: 'https://elsewhere.example',
          },
          body: form(index),
        });
        await reply.then((one) => one.text()).catch(() => '');
      };
      for (let sent = 0; sent < count; sent += 9) {
        await Promise.all(Array.from({ length: 9 }, (_, index) => send(sent + index)));
      }
      expect(child.exitCode).toBeNull();
      expect((await fetch(`${url}/connect/jwks`)).status).toBe(200);
    },
    60_000,
  );
});
