import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer as createHttp, type IncomingMessage } from 'node:http';
import { createServer as createHttps } from 'node:https';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { NestFactory } from '@nestjs/core';
import { Client, errors, type Dispatcher } from 'undici';
import { ExhibitorModule, TokenService, type HttpOptions } from '../../lib/index.js';
import { useClosing } from '../support/lifetimes.js';
import { OperatorLines } from '../support/operator-lines.js';
import { describeWith, says } from '../support/programs.js';
import { follow, sendJson, startServer } from '../support/server.js';
import { tenantAt } from '../support/tenant-at.js';
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
const tlsProxy = () => serve(createHttps(CERTIFICATE), 'https');

describe('a connection that a proxy does not make is told as a problem of http.dispatcher', () => {
  it.each<[string, http: () => Promise<HttpOptions>, reason: string]>([
    ['nobody listens', async () => proxied(NOBODY), 'ECONNREFUSED at 127.0.0.1:9'],
    ['its name is unknown', async () => proxied(UNKNOWN), `ENOTFOUND at ${new URL(UNKNOWN).host}`],
    ['407', async () => proxied(await answering(407)), 'the proxy answered 407'],
    ['403', async () => proxied(await answering(403)), 'the proxy answered 403'],
    ['502', async () => proxied(await answering(502)), 'the proxy answered 502'],
    ['it closes', async () => proxied(await proxyThat((client) => client.end())), 'ECONNRESET'],
    ['it resets', async () => proxied(await proxyThat((client) => client.resetAndDestroy())), 'ECONNRESET'],
    [
      'its certificate',
      async () => proxied((await tlsProxy()).url),
      'DEPTH_ZERO_SELF_SIGNED_CERT at localhost:\\d+',
    ],
    [
      'its certificate is of another name',
      async () =>
        proxied((await tlsProxy()).url.replace('localhost', '127.0.0.1'), {
          proxyTls: { ca: CERTIFICATE.cert, servername: 'x.test' },
        }),
      'UND_ERR_PRX_TLS',
    ],
    [
      'it resets in TLS',
      async () => proxied((await serve(resetting(), 'https')).url),
      'ECONNRESET at localhost:\\d+',
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

describe('a connection that a service does not make is told as a problem of its address', () => {
  const trusting = through(({ Agent }) => new Agent({ connect: { ca: CERTIFICATE.cert } }));

  it.each<[string, url: string, HttpOptions, line: string]>([
    ['refused', 'http://127.0.0.1:9', {}, 'authUrl: .*ECONNREFUSED'],
    ['refused, with mTLS', 'https://127.0.0.1:9', trusting, 'authUrl: .*ECONNREFUSED'],
    ['refused, by its name', 'https://localhost:9', trusting, 'authUrl: .*ECONNREFUSED'],
    ['unknown', UNKNOWN.replace('http', 'https'), {}, 'authUrl: .*ENOTFOUND'],
    ['unknown, with mTLS', UNKNOWN.replace('http', 'https'), trusting, 'authUrl: .*ENOTFOUND'],
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
    const line = /^tenants\.\*: no connection to .*: EADDRNOTAVAIL, a limit of this process or machine/;
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
          await expect(tokens.getToken()).rejects.toMatchObject({ code: 'token_unavailable', attempts: 1 });
        }
      });
      const line =
        /^tenants\.\*: no connection to http.*: EMFILE, a limit of this process or machine: open files/;
      expect(lines.all).toEqual([expect.stringMatching(line)]);
      await expect(tokens.getToken()).resolves.toMatchObject({ accessToken: 'a' });
    });
  });
});
