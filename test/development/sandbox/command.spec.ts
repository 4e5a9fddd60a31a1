import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { jest } from '@jest/globals';
import { decodeJwt } from 'jose';
import type { Fault, SandboxSeed } from 'nestjs-exhibitor/testing';
import { exhibitorOptionsFrom } from '../../../lib/index.js';
import { HOST_VARIABLES, SECRET_VARIABLE } from '../../../lib/model/host-variables.js';
import { help, run } from '../../../lib/development/sandbox/sandbox.command.js';
import { BrowserVisitor, describeInChromium, expectFits } from '../../support/browser.js';
import { startServer } from '../../support/server.js';
import { Visitor } from '../../support/visitor.js';
import { eventually } from '../../support/wait.js';
import { tokenOf } from './rest-client.js';

const folder = mkdtempSync(join(tmpdir(), 'exhibitor-command-'));
afterAll(() => rmSync(folder, { recursive: true }));

function fileWith(name: string, content: unknown): string {
  const file = join(folder, name);
  writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content));
  return file;
}

/** What a run of the command has printed, and how it ends. */
interface Running {
  readonly text: string;
  readonly url: string;
  readonly env: Record<string, string | undefined>;
  readonly ended: Promise<number>;
}

async function start(...args: string[]): Promise<Running> {
  const printed: string[] = [];
  const log = jest.spyOn(console, 'log').mockImplementation((line) => void printed.push(String(line)));
  const ended = run(['--port', '0', ...args]);
  try {
    await eventually(() => printed.length === 1, 10_000);
  } finally {
    log.mockRestore();
  }
  const text = printed.join('\n');
  const env = parseEnv(text.slice(text.indexOf('TENANT_ID=')));
  return { text, env, url: /http:\/\/127\.0\.0\.1:\d+/.exec(text)?.[0] ?? '', ended };
}

const REDIRECT_URI = 'http://127.0.0.1:3999/auth/callback';
/** The seed of docs/sandbox.md. */
const DOCUMENT = readFileSync(new URL('../../../docs/sandbox.md', import.meta.url), 'utf8');
const SEED = JSON.parse(/```json\n([\s\S]*?)```/.exec(DOCUMENT)?.[1] ?? '') as SandboxSeed;

/** Ends every run of the command in this process, as the signal does. */
async function end(running: Running, signal: NodeJS.Signals = 'SIGTERM'): Promise<number> {
  process.emit(signal, signal);
  return running.ended;
}

const DELAY: Fault = { kind: 'delay', ms: 1 };

describe('nestjs-exhibitor sandbox with a seed and redirect addresses', () => {
  let sandbox: Running;
  beforeAll(async () => {
    const uris = ['--redirect-uri', REDIRECT_URI, '--redirect-uri', 'https://portal.example.com/cb'];
    sandbox = await start('--seed', fileWith('seed.json', SEED), ...uris);
  });
  afterAll(() => end(sandbox));

  const at = (path: string, init?: RequestInit): Promise<Response> => fetch(`${sandbox.url}${path}`, init);
  const addFault = (fault: unknown): Promise<Response> =>
    at('/sandbox/faults', { method: 'POST', body: JSON.stringify(fault) });

  async function lookUp(email: string, eventId = 'spring-2027'): Promise<Response> {
    const { authUrl, clientId, clientSecret, tenantId } = exhibitorOptionsFrom(sandbox.env).tenant;
    const token = await tokenOf({ authUrl, clientId, clientSecret: String(clientSecret) });
    return at(`/api/v1/exhibitor/event/${eventId}/contactEmail/${email}`, {
      headers: { authorization: `Bearer ${token}`, 'x-tenant-id': tenantId },
    });
  }

  it('prints tenants, events, people, and every variable of a host', async () => {
    for (const word of ['/sandbox', 'acme', 'spring-2027', 'Pat <pat@example.com>']) {
      expect(sandbox.text).toContain(word);
    }
    const names = [...Object.values(HOST_VARIABLES), SECRET_VARIABLE];
    expect(Object.keys(sandbox.env).toSorted()).toEqual([...names, 'PORT'].toSorted());
    expect(sandbox.env).toMatchObject({ REDIRECT_URI, PORT: '3999' });
    expect(sandbox.env['COOKIE_SECRET']).toHaveLength(43);
    const [, address = ''] = /curl '(\S+person=pat)'/.exec(sandbox.text) ?? [];
    expect((await fetch(address)).status).toBe(200);
  });

  it('answers the credentials of every tenant, as options of the module: those of the environment', async () => {
    const { tenants } = (await (await at('/sandbox/tenants')).json()) as { tenants: Record<string, unknown> };
    const { tenant } = exhibitorOptionsFrom(sandbox.env);
    expect(tenants).toEqual({ acme: { ...tenant, login: { ...tenant.login, responseType: 'code' } } });
    expect(tenant).toMatchObject({ baseUrl: sandbox.url, clientSecret: "it's for development" });
  });

  it('serves the seed of the file, that of docs/sandbox.md', async () => {
    expect(await (await lookUp('pat@example.com')).json()).toEqual(SEED.exhibitors['acme']?.['spring-2027']);
    expect((await lookUp('pat@example.com', 'world-2026')).status).toBe(404);
  });

  it('refuses other redirect addresses, as real providers do', async () => {
    const known = [REDIRECT_URI, 'https://portal.example.com/cb'];
    const others = ['http://127.0.0.1:3000/auth/callback', `${REDIRECT_URI}/`];
    const statusOf = async (uri: string): Promise<number> => {
      const login = { client_id: 'acme-web', response_type: 'code', scope: 'openid', redirect_uri: uri };
      return (await at(`/connect/authorize?${new URLSearchParams(login)}`, { redirect: 'manual' })).status;
    };
    expect(await Promise.all([...known, ...others].map(statusOf))).toEqual([303, 303, 400, 400]);
  });

  it('lets logouts end on loopback and at the origins of its redirect addresses', async () => {
    const statusOf = async (uri: string): Promise<number> => {
      const logout = new URLSearchParams({ client_id: 'acme-web', post_logout_redirect_uri: uri });
      return (await at(`/connect/endsession?${logout}`)).status;
    };
    const known = ['http://localhost:1/bye', 'https://portal.example.com/bye'];
    const others = ['https://other.example.com/', 'x'];
    expect(await Promise.all([...known, ...others].map(statusOf))).toEqual([200, 200, 400, 400]);
  });

  it('takes, lists, applies and removes faults by HTTP', async () => {
    const match = { operation: ['lookup', 'list'], tenant: 'acme' };
    const fault = { kind: 'status', status: 418 };
    expect((await addFault({ match, fault, times: 2 })).status).toBe(200);
    expect(await (await at('/sandbox/faults')).json()).toEqual([{ match, fault, remaining: 2 }]);
    expect((await lookUp('pat@example.com')).status).toBe(418);
    expect(await (await at('/sandbox/faults')).json()).toEqual([{ match, fault, remaining: 1 }]);
    expect(await (await at('/sandbox/faults', { method: 'DELETE' })).json()).toEqual([]);
    expect((await lookUp('pat@example.com')).status).toBe(200);
  });

  it('takes the faults of docs/sandbox.md, and each member of a reply', async () => {
    const documented = [...DOCUMENT.matchAll(/-d '(\{.+\})'/g)].map(([, fault]) => JSON.parse(String(fault)));
    const status = { kind: 'status', status: 503, headers: { 'retry-after': '1' }, body: '{}' };
    const body = { kind: 'body', body: 'x', contentType: 'text/html', status: 201 };
    const all = [...documented, { match: 'other', fault: status }, { match: 'other', fault: body }];
    const statuses = await Promise.all(all.map(async (fault) => (await addFault(fault)).status));
    await at('/sandbox/faults', { method: 'DELETE' });
    expect(statuses).toEqual([200, 200, 200, 200, 200]);
  });

  it.each([
    [{ fault: DELAY }, 'Invalid key: Expected "match" but received undefined'],
    [{ match: 'lists', fault: DELAY }, 'Invalid type: Expected ("list" | "lookup" |'],
    [{ match: { operation: ['lists'] }, fault: DELAY }, '→ at match.operation'],
    [{ match: 'list', fault: { kind: 'status', status: 99 } }, 'received 99\n  → at fault.status'],
    [{ match: 'list', fault: { ...DELAY, at: 1 } }, 'Expected never but received "at"\n  → at fault.at'],
    [{ match: 'list', fault: DELAY, times: 0 }, 'times must be an integer from 1'],
    ['{', 'the body:\n× must be JSON'],
  ])('names what is wrong with the fault %j', async (fault, message) => {
    const body = typeof fault === 'string' ? fault : JSON.stringify(fault);
    const reply = await at('/sandbox/faults', { method: 'POST', body });
    const said = JSON.stringify(message).slice(1, -1);
    expect([reply.status, await reply.text()]).toEqual([400, expect.stringContaining(said)]);
    expect(await (await at('/sandbox/faults')).json()).toEqual([]);
  });

  it.each([
    ['another Host', { host: 'rebound.example:4010' }],
    ['a foreign Origin', { origin: 'https://evil.example' }],
    ['another local origin', { origin: 'http://127.0.0.1:3000' }],
    ['an opaque origin', { origin: 'null' }],
  ])('serves neither page nor faults to a request with %s', async (_name, headers) => {
    for (const [method, path] of [
      ['GET', '/sandbox'],
      ['GET', '/sandbox/tenants'],
      ['GET', '/sandbox/token?person=pat'],
      ['GET', '/sandbox/faults'],
      ['DELETE', '/sandbox/faults'],
      ['POST', '/sandbox/faults'],
    ]) {
      const reply = await new Visitor().visit(`${sandbox.url}${path}`, { method, headers: { ...headers } });
      expect([method, path, reply.status]).toEqual([method, path, 403]);
    }
  });

  it.each(['cross-site', 'same-site'])(
    'takes and removes no faults for a page of another origin that tells only Sec-Fetch-Site: %s; a link leads to the page',
    async (site) => {
      const visit = async (method: string, path: string) =>
        (await new Visitor().visit(`${sandbox.url}${path}`, { method, headers: { 'sec-fetch-site': site } }))
          .status;
      expect(await visit('DELETE', '/sandbox/faults')).toBe(403);
      expect(await visit('POST', '/sandbox/faults')).toBe(403);
      expect(await visit('GET', '/sandbox')).toBe(200);
    },
  );

  it('serves them to the page itself, by both names of this machine', async () => {
    for (const origin of [sandbox.url, sandbox.url.replace('127.0.0.1', 'localhost')]) {
      const headers = { host: new URL(origin).host, origin };
      const reply = await new Visitor().visit(`${sandbox.url}/sandbox/faults`, { method: 'DELETE', headers });
      expect(reply.status).toBe(200);
    }
    expect((await at('/sandbox/other')).status).toBe(404);
    expect((await at('/sandboxes')).status).toBe(404);
  });

  describeInChromium('its page', (browser) => {
    let visitor: BrowserVisitor;
    beforeAll(async () => {
      visitor = await BrowserVisitor.arrive(browser());
    });
    afterAll(() => visitor?.leave());

    it('shows requests and faults live, without tokens and secrets', async () => {
      const { page } = visitor;
      await page.goto(`${sandbox.url}/sandbox`);
      await page.getByText('Live.').waitFor();
      await addFault({ match: 'lookup', fault: { kind: 'status', status: 503 } });
      await page.getByText('"status":503},"remaining":1').waitFor();
      await lookUp('pat@example.com');
      await page.getByText('· fault: status').first().waitFor();
      await lookUp('<b>@example.com');
      await page.getByText('/contactEmail/%3Cb%3E@example.com').waitFor();
      await page.getByText('None.').waitFor();
      const text = await visitor.text();
      expect(text).toContain('client_id=acme-api · client_secret=…');
      expect(text).toContain(`X-Tenant-Id: ${sandbox.env['TENANT_ID']} · fault: status`);
      const html = await page.content();
      expect(html).not.toContain(String(sandbox.env['API_CLIENT_SECRET']));
      expect(html).not.toContain('eyJ');
      expect(visitor.troubles).toEqual([]);
    });

    it('adds and removes faults by its buttons, above the requests', async () => {
      const { page } = visitor;
      await page.goto(`${sandbox.url}/sandbox`);
      const press = (name: string): Promise<void> => page.getByRole('button', { name }).click();
      const pending = async (): Promise<unknown[]> =>
        (await (await at('/sandbox/faults')).json()) as unknown[];
      await page.getByLabel('Operation').selectOption('lookup');
      await page.getByLabel('Times').fill('2');
      await press('Status 503');
      await eventually(async () => (await pending()).length === 1);
      await page.getByLabel('Tenant').selectOption('acme');
      for (const name of ['HTML, 200', '3 s late', 'Reset']) {
        await press(name);
      }
      await eventually(async () => (await pending()).length === 4);
      const kinds = new Set((await pending()).map((one) => Object(one).fault.kind));
      expect(kinds).toEqual(new Set(['status', 'body', 'delay', 'reset']));
      expect((await pending())[0]).toMatchObject({ match: { operation: 'lookup' }, remaining: 2 });
      expect((await lookUp('pat@example.com')).status).toBe(503);
      await press('Remove all');
      await eventually(async () => (await pending()).length === 0);
      const html = await page.content();
      expect(html.indexOf('data-fault')).toBeLessThan(html.indexOf('>Requests<'));
      expect(visitor.troubles).toEqual([]);
    });

    it('passes axe and fits', () => expectFits(visitor.page));
  });
});

describe('nestjs-exhibitor sandbox', () => {
  it('writes the environment to a new file, generates exhibitors of own events, and ends at once by SIGTERM', async () => {
    const file = join(folder, 'host.env');
    const seed = fileWith('events.json', { events: [{ id: 'spring-2027', title: 'Spring Fair' }] });
    const sandbox = await start('--write-env', file, '--seed', seed, '--latency', '1');
    const written = parseEnv(readFileSync(file, 'utf8'));
    expect(written).toMatchObject({
      BASE_URL: sandbox.url,
      REDIRECT_URI: 'http://127.0.0.1:3000/auth/callback',
    });
    expect(sandbox.text).toContain(`acme. Saved to ${file}. Run: node --env-file=${file} dist/main.js`);
    expect(sandbox.text).not.toContain('API_CLIENT_SECRET');

    const message = `${file} exists. Its values stay valid: leave out --write-env, or delete it.`;
    await expect(run(['--port', '0', '--write-env', file])).rejects.toThrow(message);
    expect(parseEnv(readFileSync(file, 'utf8'))).toEqual(written);

    // An open connection does not delay the end.
    await (await fetch(`${sandbox.url}/sandbox`)).text();
    const began = performance.now();
    expect(await end(sandbox)).toBe(143);
    expect(performance.now() - began).toBeLessThan(1_000);
    await expect(fetch(sandbox.url)).rejects.toThrow('fetch failed');
  });

  it('writes the environment of several tenants, each with its prefix and its redirect address', async () => {
    const file = join(folder, 'two.env');
    const uris = ['http://acme.localhost:3100/cb', 'https://globex.example.com/cb'];
    const keys = ['--tenant', 'acme', '--tenant', 'globex'];
    const two = await start('--write-env', file, ...keys, ...uris.flatMap((uri) => ['--redirect-uri', uri]));
    expect(two.text).toContain(`docs/tenants.md, for the tenants acme and globex. Saved to ${file}`);
    const written = parseEnv(readFileSync(file, 'utf8'));
    const names = ['ACME_', 'GLOBEX_'].flatMap((prefix) =>
      Object.values(HOST_VARIABLES).map((name) => prefix + name),
    );
    expect(Object.keys(written).toSorted()).toEqual([...names, SECRET_VARIABLE, 'PORT'].toSorted());
    const client = { clientId: 'globex-api', clientSecret: 'globex-api-secret-for+development/only&=%20:?' };
    expect(exhibitorOptionsFrom(written, { prefix: 'GLOBEX_' })).toMatchObject({
      secrets: [written[SECRET_VARIABLE]],
      tenant: { ...client, baseUrl: two.url, login: { redirectUri: uris[1] } },
    });
    expect(written['ACME_REDIRECT_URI']).toBe(uris[0]);
    await end(two);
    // Tenants without an address of their own have the first one.
    const one = await start(...keys, '--redirect-uri', 'http://acme.localhost:3100/cb');
    expect(one.env).toMatchObject({ ACME_REDIRECT_URI: uris[0], GLOBEX_REDIRECT_URI: uris[0] });
    await end(one);
    await expect(run(['--port', '0', '--tenant', 'none'])).rejects.toThrow('no tenant "none"; it has acme, ');
    for (const other of ['a_b', 'A-B', 'a--b']) {
      const alike = run(['--port', '0', '--tenant', 'a-b', '--tenant', other]);
      await expect(alike).rejects.toThrow(`would have the same names: a-b, ${other}`);
    }
  });

  it('serves the default seed, prints an access token of a person, and ends by SIGINT', async () => {
    const sandbox = await start('--tenant', 'globex');
    for (const words of [
      'world-2026',
      'acme, globex, initech',
      'the README, for the tenant globex. Save it to .env and run: node --env-file=.env dist/main.js\n\nTENANT_ID=',
      'http://127.0.0.1:3000/auth/callback and http://localhost:3000/auth/callback',
    ]) {
      expect(sandbox.text).toContain(words);
    }
    expect(sandbox.env).toMatchObject({ API_CLIENT_ID: 'globex-api' });

    const { port } = new URL(sandbox.url);
    const log = jest.spyOn(console, 'log').mockImplementation(() => {});
    expect(await run(['--port', port, '--print-token', 'zoë+fair@example.com'])).toBe(0);
    const { calls } = log.mock;
    log.mockRestore();
    const claims = { iss: sandbox.url, aud: 'portal-api', sub: 'zoe.fair', email: 'zoë+fair@example.com' };
    expect(calls.map(([token]) => decodeJwt(String(token)))).toEqual([expect.objectContaining(claims)]);
    await expect(run(['--port', port, '--print-token', 'nobody'])).rejects.toThrow(
      /^http:\S+ answers 400: \{.*"ExhibitorSandbox has no such person; it has nora\.none, [\w., -]+"\}$/,
    );
    const stranger = await startServer((_, response) => void response.writeHead(404).end('no sandbox'));
    const wrongPort = run(['--port', new URL(stranger.url).port, '--print-token', 'nobody']);
    await expect(wrongPort).rejects.toThrow(`${stranger.url} answers 404: no sandbox`);
    await stranger.stop();

    expect(await end(sandbox, 'SIGINT')).toBe(130);
    await expect(run(['--port', port, '--print-token', 'sam.several'])).rejects.toThrow(
      `no sandbox answers at ${sandbox.url}: start it in another terminal, or name its --port`,
    );
  });

  it.each([
    [['--port', 'http'], '--port must be a whole number from 0 to 65535, not "http"'],
    [['--port', '65536'], '--port must be a whole number from 0 to 65535, not "65536"'],
    [['--latency', '1.5'], '--latency must be a whole number from 0 to 3600000, not "1.5"'],
    [
      ['--redirect-uri', '/auth/callback'],
      '--redirect-uri must be an http or https URL without a fragment, not "/auth/callback"',
    ],
    [['--redirect-uri', 'http://a/#b'], 'not "http://a/#b"'],
    [['--colour'], "Unknown option '--colour'"],
    [['--seed', 'none.json'], 'ENOENT: no such file or directory, open'],
  ])('names the mistake in %j', async (args, message) => {
    await expect(run(args)).rejects.toThrow(message);
  });

  it.each([
    ['{', 'must be JSON'],
    [{ event: [] }, 'Invalid key: Expected never but received "event"\n  → at event'],
    [{ events: [{ id: 'e' }] }, 'Expected "title" but received undefined\n  → at events.0.title'],
    [{ tenants: [] }, 'Invalid length: Expected >=1 but received 0\n  → at tenants'],
    [{ exhibitors: { acme: { e: [{ id: 'x' }] } } }, '→ at exhibitors.acme.e.0.contactEmails'],
  ])('names what is wrong with the seed %j', async (seed, message) => {
    const file = fileWith('wrong.json', seed);
    await expect(run(['--seed', file])).rejects.toThrow(`${file}:`);
    await expect(run(['--seed', file])).rejects.toThrow(message);
  });

  it('explains each of its options', () => {
    const OPTIONS = ['--port', '--redirect-uri', '--seed', '--latency', '--tenant', '--write-env'];
    for (const option of [...OPTIONS, '--print-token']) {
      expect(help).toContain(`\n  ${option}`);
    }
    expect(Math.max(...help.split('\n').map(({ length }) => length))).toBeLessThanOrEqual(120);
  });
});
