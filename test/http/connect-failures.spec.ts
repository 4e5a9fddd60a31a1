import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer as createHttp, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createHttps } from 'node:https';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { NestFactory } from '@nestjs/core';
import { firstValueFrom } from 'rxjs';
import { Client, errors, type Dispatcher } from 'undici';
import { PartnerFailures } from '../../lib/config/problems/partner-failures.js';
import { ExhibitorModule, ExhibitorsService, TokenService, type HttpOptions } from '../../lib/index.js';
import { addSecret } from '../setup/leaks.js';
import { clockOf } from '../support/clock.js';
import { useClosing } from '../support/lifetimes.js';
import { OperatorLines } from '../support/operator-lines.js';
import { describeWith, says } from '../support/programs.js';
import { follow, sendJson, startServer } from '../support/server.js';
import { tenantAt } from '../support/tenant-at.js';
import { eventually } from '../support/wait.js';
import { ending } from './transport-bench.js';

type Undici = typeof import('undici');

const pem = (name: string): string => readFileSync(new URL(`certificates/${name}`, import.meta.url), 'utf8');
const CERTIFICATE = { key: pem('server.key'), cert: pem('server.pem') };
const TOKEN = { access_token: 'a', token_type: 'Bearer', expires_in: 3600 };
/** Nobody listens there. */
const NOBODY = 'http://127.0.0.1:9';
const UNKNOWN = `http://${'x'.repeat(64)}.invalid:3128`;

const closing = useClosing();
const lines = new OperatorLines();
beforeEach(() => lines.clear());

const made: Dispatcher[] = [];
afterEach(() => Promise.all(made.splice(0).map((dispatcher) => dispatcher.destroy())));

/** The tokens of a host whose service and provider are at this address. */
async function tokensAt(url: string, http: HttpOptions = {}): Promise<TokenService> {
  const tenant = tenantAt(url, { attempts: 1, deadline: 2_000, ...http });
  const imports = ExhibitorModule.forRoot({
    tenant,
    secrets: ['a cookie secret of the tests, 32+ characters'],
  });
  const context = closing(await NestFactory.createApplicationContext(imports, { logger: lines }));
  return context.get(TokenService);
}

const through = (make: (undici: Undici) => Dispatcher): HttpOptions => ({
  dispatcher: (undici) => {
    const dispatcher = make(undici);
    made.push(dispatcher);
    return dispatcher;
  },
});

const serve = async (server: Server, scheme: 'http' | 'https' = 'http') =>
  ending(await follow(server, scheme));
const service = () =>
  serve(
    createHttps(CERTIFICATE, (_request, response) => sendJson(response, TOKEN)),
    'https',
  );

/** An HTTP proxy that does this at CONNECT. */
async function proxyThat(connects: (client: Socket, request: IncomingMessage) => void): Promise<string> {
  const proxy = createHttp((_request, response) => void response.writeHead(407).end());
  proxy.on('connect', (request, client: Socket) =>
    connects(
      client.on('error', () => undefined),
      request,
    ),
  );
  return (await serve(proxy)).url;
}
const answering = (status: number) =>
  proxyThat((client) => client.end(`HTTP/1.1 ${status} No\r\ncontent-length: 0\r\n\r\n`));
const proxied = (uri: string, options: object = {}): HttpOptions =>
  through(({ ProxyAgent }) => new ProxyAgent({ uri, ...options }));
/** The address with a password that no error may show. */
function withPassword(address: string): string {
  const password = 'proxy password of the tests';
  addSecret(password);
  return address.replace('//', `//portal:${encodeURIComponent(password)}@`);
}
const tlsProxy = () => serve(createHttps(CERTIFICATE), 'https');

describe('a connection that a proxy does not make is told as a problem of http.dispatcher', () => {
  it.each<[string, http: () => Promise<HttpOptions>, reason: string]>([
    ['nobody listens', async () => proxied(NOBODY), 'ECONNREFUSED at 127.0.0.1:9'],
    [
      'nobody listens, with a password in its address',
      async () => proxied(withPassword(NOBODY)),
      'ECONNREFUSED at 127.0.0.1:9',
    ],
    ['its name is unknown', async () => proxied(UNKNOWN), `ENOTFOUND at ${new URL(UNKNOWN).host}`],
    ['407', async () => proxied(await answering(407)), 'the proxy answered 407'],
    [
      '407 to a password in its address',
      async () => proxied(withPassword(await answering(407))),
      'the proxy answered 407',
    ],
    ['502', async () => proxied(await answering(502)), 'the proxy answered 502'],
    [
      'its certificate',
      async () => proxied((await tlsProxy()).url),
      'DEPTH_ZERO_SELF_SIGNED_CERT at localhost:\\d+',
    ],
    [
      'it resets in TLS',
      async () => proxied((await serve(resetting(), 'https')).url),
      'ECONNRESET at localhost:\\d+',
    ],
    [
      'a pool at a gateway',
      async () => through(({ Pool }) => new Pool(NOBODY)),
      'ECONNREFUSED at 127.0.0.1:9',
    ],
    [
      'that of the environment',
      async () =>
        through(({ EnvHttpProxyAgent }) => new EnvHttpProxyAgent({ httpsProxy: NOBODY, noProxy: '' })),
      'ECONNREFUSED at 127.0.0.1:9',
    ],
  ])('%s', async (_what, http, reason) => {
    const { url, requests } = await service();
    const tokens = await tokensAt(url, await http());
    await expect(tokens.getToken()).rejects.toMatchObject({ code: 'token_unavailable', attempts: 1 });
    const line = `^tenant\\.http\\.dispatcher: no connection to ${url}/connect/token: ${reason}$`;
    expect(lines.all).toEqual([expect.stringMatching(line)]);
    expect(requests).toEqual([]);
  });

  it('a dispatcher that throws what cannot be read', async () => {
    const { url } = await service();
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    const strange = { message: Object.create(null) as unknown };
    for (const thrown of [proxy, strange]) {
      const broken = {
        dispatch: () => true,
        request: () => Promise.reject(thrown),
        destroy: async () => undefined,
      };
      const tokens = await tokensAt(
        url,
        through(() => broken as unknown as Dispatcher),
      );
      await expect(tokens.getToken()).rejects.toMatchObject({ code: 'token_unavailable', attempts: 1 });
    }
    expect(lines.all.join('\n')).toMatch(/^tenant\.http\.dispatcher: no connection to .*: unknown error$/m);
  });

  it('407 of a proxy or gateway that passes requests on', async () => {
    const { url } = await serve(createHttp((_request, response) => void response.writeHead(407).end('{}')));
    for (const http of [proxied(url, { proxyTunnel: false }), through(({ Agent }) => new Agent())]) {
      lines.clear();
      await expect((await tokensAt(url, http)).getToken()).rejects.toMatchObject({
        code: 'token_unavailable',
      });
      expect(lines.all).toEqual([
        expect.stringMatching(/^tenant\.http\.dispatcher: .*: the proxy answered 407$/),
      ]);
    }
  });

  it.each(['end', 'resetAndDestroy'] as const)(
    'and where it passes requests on and closes (%s), of both',
    async (end) => {
      const proxy = await serve(resetting(end));
      const tokens = await tokensAt('http://localhost:9', proxied(proxy.url, { proxyTunnel: false }));
      await expect(tokens.getToken()).rejects.toMatchObject({ code: 'token_unavailable' });
      const line =
        /^tenant\.authUrl, tenant\.http\.dispatcher: no connection to http:.*: (UND_ERR_SOCKET|ECONNRESET)$/;
      expect(lines.all).toEqual([expect.stringMatching(line)]);
    },
  );

  it('and a proxy that closes is not asked without end', async () => {
    let asked = 0;
    const uri = await proxyThat((client) => ((asked += 1), client.end()));
    await expect((await tokensAt('https://localhost:9', proxied(uri))).getToken()).rejects.toThrow();
    expect(asked).toBe(1);
  });

  it("and the errors of a host's own clients stay as they are", async () => {
    await tokensAt(NOBODY);
    const error = new errors.SocketError('closed');
    const client = new Client(NOBODY, { connect: (_options, done) => void setImmediate(done, error, null) });
    made.push(client);
    client.request({ path: '/', method: 'GET' }).catch(() => undefined);
    await once(client, 'connectionError');
    expect(error.code).toBe('UND_ERR_SOCKET');
  });
});

/** Closes connections at their first bytes. */
function resetting(end: 'resetAndDestroy' | 'end' = 'resetAndDestroy'): Server {
  return createServer((socket) => void socket.on('error', () => undefined).once('data', () => socket[end]()));
}

describe('a connection that is not made through a dispatcher, which does not say where it failed', () => {
  it.each<[string, http: () => Promise<HttpOptions>, reason: string]>([
    ['it closes', async () => proxied(await proxyThat((client) => client.end())), 'ECONNRESET'],
    ['it resets', async () => proxied(await proxyThat((client) => client.resetAndDestroy())), 'ECONNRESET'],
    [
      'its certificate is of another name',
      async () =>
        proxied((await tlsProxy()).url.replace('localhost', '127.0.0.1'), {
          proxyTls: { ca: CERTIFICATE.cert, servername: 'x.test' },
        }),
      'UND_ERR_PRX_TLS',
    ],
    ['SOCKS, nobody listens', async () => proxied('socks5://127.0.0.1:9'), 'ECONNREFUSED'],
    [
      'SOCKS, refused',
      async () =>
        proxied(
          (await serve(createServer((socket) => socket.write(Buffer.of(5, 255))))).url.replace(
            'http',
            'socks5',
          ),
        ),
      'UND_ERR_SOCKS5_AUTH_REJECTED',
    ],
  ])('is told as a problem of both: %s', async (_what, http, reason) => {
    const { url } = await service();
    await expect((await tokensAt(url, await http())).getToken()).rejects.toMatchObject({
      code: 'token_unavailable',
    });
    const line = `^tenant\\.authUrl, tenant\\.http\\.dispatcher: no connection to ${url}/connect/token: ${reason}$`;
    expect(lines.all).toEqual([expect.stringMatching(line)]);
  });
});

describe('a connection that a service does not make is told as a problem of its address', () => {
  it.each<[string, url: string, HttpOptions, line: string]>([
    ['refused', 'http://127.0.0.1:9', {}, 'authUrl: .*ECONNREFUSED'],
    ['refused, by its name', 'https://localhost:9', {}, 'authUrl: .*ECONNREFUSED'],
    ['unknown', UNKNOWN.replace('http', 'https'), {}, 'authUrl: .*ENOTFOUND'],
  ])('%s', async (_what, url, http, line) => {
    await expect((await tokensAt(url, http)).getToken()).rejects.toMatchObject({ code: 'token_unavailable' });
    expect(lines.all).toEqual([expect.stringMatching(`^tenant\\.${line}$`)]);
  });

  it('a certificate behind a dispatcher: of both', async () => {
    const { url } = await service();
    const tunnel = await proxyThat((client, { url: target = '' }) => {
      const onward = connect(Number(target.split(':')[1]), '127.0.0.1', () => {
        client.write('HTTP/1.1 200 OK\r\n\r\n');
        onward
          .on('error', () => undefined)
          .pipe(client)
          .pipe(onward);
      });
    });
    for (const http of [through(({ Agent }) => new Agent()), proxied(tunnel)]) {
      lines.clear();
      await expect((await tokensAt(url, http)).getToken()).rejects.toThrow();
      const line = /^tenant\.authUrl, tenant\.http\.dispatcher: .*: DEPTH_ZERO_SELF_SIGNED_CERT$/;
      expect(lines.all).toEqual([expect.stringMatching(line)]);
    }
  });

  it.each(['resetAndDestroy', 'end'] as const)(
    'closed before TLS is done (%s): one attempt each, no replay',
    async (end) => {
      const server = await serve(resetting(end), 'https');
      const tokens = await tokensAt(server.url, { attempts: 2 });
      await expect(tokens.getToken()).rejects.toMatchObject({ code: 'token_unavailable', attempts: 2 });
      expect(server.connected).toBe(2);
      expect(lines.all).toEqual([
        expect.stringMatching(/^tenant\.authUrl: no connection to https:.*: ECONNRESET$/),
      ]);
    },
  );
});

describe('a connection that this machine does not make', () => {
  it('is told as such: no address', async () => {
    const http = through(({ Agent }) => new Agent({ localAddress: '203.0.113.1' }));
    await expect((await tokensAt(NOBODY, http)).getToken()).rejects.toMatchObject({
      code: 'token_unavailable',
    });
    const line = /^tenant: no connection to .*: EADDRNOTAVAIL, a limit of this process or machine/;
    expect(lines.all).toEqual([expect.stringMatching(line)]);
  });

  const prlimit = { name: 'prlimit', files: ['prlimit'], variable: 'PRLIMIT' };
  describeWith(prlimit, 'without a file descriptor', (program) => {
    /** Does this while no file and no connection can be opened. */
    async function without(work: () => Promise<void>): Promise<void> {
      const script =
        'limit=$("$0" -p "$1" -n -o SOFT --noheadings); "$0" -p "$1" -n4: && echo set; read end; "$0" -p "$1" -n"$limit":';
      const child = spawn('sh', ['-c', script, program, String(process.pid)]);
      const ended = once(child, 'exit');
      await says(child, 'set');
      await work().finally(() => child.stdin.end('end\n'));
      await ended;
    }

    it.each(['127.0.0.1', 'localhost'])('is told as such, and opens no circuit: %s', async (name) => {
      const server = ending(await startServer((_request, response) => sendJson(response, TOKEN)));
      const tokens = await tokensAt(server.url.replace('127.0.0.1', name));
      await without(async () => {
        for (let call = 0; call < 45; call += 1) {
          await expect(tokens.getToken()).rejects.toMatchObject({ code: 'token_unavailable' });
        }
      });
      const line = /^tenant: no connection to http.*: EMFILE, a limit of this process or machine: open files/;
      expect(lines.all).toEqual([expect.stringMatching(line)]);
      // After a failed token request there is none for a second.
      const token = () => tokens.getToken().catch(() => undefined);
      await eventually(async () => (await token())?.accessToken === 'a');
    });
  });
});

describe('a partner that fails', () => {
  /** A service that gives tokens, and does this with other connections or requests. */
  async function failing(fail: (response: ServerResponse) => void): Promise<string> {
    const server = await startServer((request, response) =>
      request.url === '/connect/token' ? sendJson(response, TOKEN) : fail(response),
    );
    return ending(server).url;
  }
  const close = (response: ServerResponse) => void response.destroy();
  const continued = (response: ServerResponse) => void response.socket?.end('HTTP/1.1 100 Continue\r\n\r\n');
  const unavailable = (response: ServerResponse) => sendJson(response, {}, 503);
  const silent = () => undefined;

  it.each<[string, (response: ServerResponse) => void, how: string]>([
    ['closes connections', close, 'no reply'],
    ['sends nothing but 100', continued, 'no reply'],
    ['answers 503', unavailable, 'status 503'],
    ['is silent', silent, 'no reply'],
  ])('is told at once, and as one line for the rest of the minute: %s', async (_what, fail, how) => {
    const tenant = tenantAt(await failing(fail), { attempts: 1, attemptTimeout: 200 });
    const imports = ExhibitorModule.forRoot({ tenants: { acme: tenant } });
    const context = await NestFactory.createApplicationContext(imports, { logger: lines });
    const exhibitors = context.get<ExhibitorsService>(ExhibitorsService);
    const lists = (count: number) =>
      Promise.allSettled(
        Array.from({ length: count }, () =>
          firstValueFrom(exhibitors.list('world-2026', { tenant: 'acme' })),
        ),
      );
    await lists(1);
    expect(lines.all).toEqual([expect.stringMatching(/^tenants\.acme: list: the service /)]);
    await lists(7);
    expect(lines.all).toHaveLength(1);
    await context.close();
    expect(lines.warnings.slice(1)).toEqual([`list of acme: 7 failed in the last minute: ${how} (7)`]);
  });

  it('is told when its circuit opens, and when it closes', async () => {
    let fail = close;
    const tenant = tenantAt(await failing((response) => fail(response)), { attempts: 1 });
    const imports = ExhibitorModule.forRoot({ tenants: { acme: tenant } });
    const context = closing(await NestFactory.createApplicationContext(imports, { logger: lines }));
    const exhibitors = context.get<ExhibitorsService>(ExhibitorsService);
    const list = () => firstValueFrom(exhibitors.list('world-2026', { tenant: 'acme' }));
    const origin = tenant.baseUrl;
    await Promise.allSettled(Array.from({ length: 60 }, list));
    expect(lines.warnings.slice(1)).toEqual([
      `list of acme: the circuit is open: many requests in a row to ${origin} had no reply, so that none is sent for a while`,
    ]);
    fail = unavailable;
    clockOf(context).skip(60_000);
    await Promise.allSettled([list()]);
    expect(lines.notes).toEqual([`list of acme: the circuit is closed: ${origin} replies again`]);
  });

  it('counts what was not sent while its circuit was open', async () => {
    const tenant = tenantAt(await failing(close), { attempts: 1 });
    const imports = ExhibitorModule.forRoot({ tenants: { acme: tenant } });
    const context = await NestFactory.createApplicationContext(imports, { logger: lines });
    const exhibitors = context.get<ExhibitorsService>(ExhibitorsService);
    const lists = (count: number) =>
      Promise.allSettled(
        Array.from({ length: count }, () => firstValueFrom(exhibitors.list('e', { tenant: 'acme' }))),
      );
    await lists(40);
    await lists(3);
    await context.close();
    expect(lines.warnings.at(-1)).toBe(
      'list of acme: 42 failed in the last minute: no reply (39), not sent (3)',
    );
  });

  it('has the line of its minute at the end, the most frequent kind first', () => {
    jest.useFakeTimers();
    const written: string[] = [];
    const failures = new PartnerFailures((line) => void written.push(line));
    const lookups = ['status 503', 'no reply', 'status 503', 'status 503'];
    expect(lookups.map((how) => failures.isFirst('lookup of acme', how))).toEqual([
      true,
      false,
      false,
      false,
    ]);
    expect(failures.isFirst('lookup of globex', 'no reply')).toBe(true);
    jest.advanceTimersByTime(60_000);
    jest.useRealTimers();
    expect(written).toEqual(['lookup of acme: 3 failed in the last minute: status 503 (2), no reply (1)']);
    expect(failures.isFirst('lookup of acme', 'no reply')).toBe(true);
    failures.close();
    expect(written).toHaveLength(1);
  });
});
