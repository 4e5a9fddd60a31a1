import { readFileSync } from 'node:fs';
import { createServer as createHttp, type ServerResponse } from 'node:http';
import { createServer as createHttps } from 'node:https';
import {
  connect,
  createServer,
  getDefaultAutoSelectFamily,
  setDefaultAutoSelectFamily,
  type Socket,
} from 'node:net';
import type { TLSSocket } from 'node:tls';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { Dispatcher } from 'undici';
import type { HttpOptions, ModuleHttpOptions } from '../../lib/index.js';
import { TestClock } from '../support/clock.js';
import { NameServers } from '../support/name-servers.js';
import { follow, type TestServer, sendJson, startServer } from '../support/server.js';
import { eventually, pause } from '../support/wait.js';
import { tenantAt } from '../support/tenant-at.js';
import { ending, Sender } from './transport-bench.js';

const made: Dispatcher[] = [];
afterEach(() => Promise.all(made.splice(0).map((dispatcher) => dispatcher.destroy())));

const serve = async (listener: Parameters<typeof startServer>[0]) => ending(await startServer(listener));

describe('connections', () => {
  it('are kept alive and shared by the tenants of an origin', async () => {
    const server = await serve((_request, response) => sendJson(response));
    const sender = ending(Sender.withTenants({ acme: tenantAt(server.url), globex: tenantAt(server.url) }));
    for (const tenant of ['acme', 'globex', 'acme', 'globex']) {
      await sender.send({}, { tenant });
      await pause(20);
    }
    expect([server.requests.length, server.connected]).toEqual([4, 1]);
  });

  it('that hang in a TLS handshake are closed with the module', async () => {
    const hanging = createServer((socket) => void socket.resume());
    const server = ending(await follow(hanging, 'https'));
    const sender = Sender.with(server.url, { deadline: 60_000, attemptTimeout: 60_000 });
    const calls = [sender.send(), sender.send({ operation: 'code', isOnce: true })];
    const results = Promise.allSettled(calls);
    await eventually(() => server.connections.size === 2);
    const began = performance.now();
    await sender.close();
    // undici would wait for its connect timeout of 10 s.
    expect(performance.now() - began).toBeLessThan(5_000);
    await results;
    await eventually(() => server.connections.size === 0);
  });
});

describe('connections to one origin', () => {
  const CODE = { operation: 'code', method: 'POST', isOnce: true } as const;
  const senderTo = (url: string, http: ModuleHttpOptions) =>
    ending(Sender.withTenants({ default: tenantAt(url) }, { maxConnections: 8, ...http }));

  /** The largest number of them that a server had for two moments: one that the client has closed takes a moment to end here. */
  function mostAt(server: TestServer): () => number {
    let [most, before] = [0, 0];
    const timer = setInterval(() => {
      most = Math.max(most, Math.min(before, server.connections.size));
      before = server.connections.size;
    }, 5);
    return () => (clearInterval(timer), most);
  }

  // To undici, what hangs in a handshake is still connecting, as to an address where nobody answers.
  it.each(['http', 'https'] as const)(
    'are maxConnections while it is silent (%s), however many requests have timed out',
    async (scheme) => {
      const silent = createServer((socket) => void socket.resume());
      const server = ending(await follow(silent, scheme));
      const sender = senderTo(server.url, { attemptTimeout: 150, attempts: 1 });
      const most = mostAt(server);
      const lists = Array.from({ length: 32 }, () => sender.send({}, { deadline: 5_000 }));
      const codes = Array.from({ length: 8 }, () => sender.send(CODE, { deadline: 300 }));
      await Promise.allSettled([...lists, ...codes]);
      expect([most(), server.connected >= 32]).toEqual([8, true]);
      await eventually(() => server.connections.size === 0, 1_000);
    },
  );

  it('are maxConnections where codes need new ones while others are kept alive', async () => {
    const held: ServerResponse[] = [];
    const server = await serve((_request, response) => void held.push(response));
    const sender = senderTo(server.url, {});
    const most = mostAt(server);
    for (const request of [{}, CODE, {}]) {
      const sent = Array.from({ length: 8 }, () => sender.send(request));
      await eventually(() => held.length === 8);
      await pause(20);
      held.splice(0).forEach((response) => sendJson(response));
      await Promise.all(sent);
    }
    expect([most(), server.connected]).toEqual([8, 24]);
  });
});

const pem = (name: string): string => readFileSync(new URL(`certificates/${name}`, import.meta.url), 'utf8');
const mutualTls = { ca: pem('server.pem'), key: pem('client.key'), cert: pem('client.pem') };

function keep<D extends Dispatcher>(dispatcher: D): D {
  made.push(dispatcher);
  return dispatcher;
}

/** A TLS service that requests a client certificate and answers with its name. */
async function startSecureService(): Promise<TestServer> {
  const certificates = { key: pem('server.key'), cert: pem('server.pem'), ca: pem('client.pem') };
  const server = createHttps(
    { ...certificates, requestCert: true, rejectUnauthorized: false },
    (request, response) => {
      const socket = request.socket as TLSSocket;
      const name = socket.getPeerCertificate().subject?.CN;
      sendJson(response, { certificate: socket.authorized ? name : 'none' });
    },
  );
  return ending(await follow(server, 'https'));
}

/** A proxy with CONNECT only, which records its targets. */
async function startProxy() {
  const tunnels: string[] = [];
  const proxy = createHttp((_request, response) => response.writeHead(405).end());
  proxy.on('connect', ({ url = '' }, client: Socket, head: Buffer) => {
    tunnels.push(url);
    const [host, port] = url.split(':');
    const target = connect(Number(port), host, () => {
      client.write('HTTP/1.1 200 Connection Established\r\n\r\n');
      target.write(head);
      target.pipe(client).pipe(target);
    });
    [client, target].forEach((socket) => socket.on('error', () => undefined));
  });
  const { url: uri } = ending(await follow(proxy, 'http'));
  const http: HttpOptions = {
    dispatcher: ({ ProxyAgent }) => keep(new ProxyAgent({ uri, requestTls: mutualTls })),
  };
  return { tunnels, http };
}

describe('http.dispatcher', () => {
  it('sends what its tenants send, codes too, through a CONNECT proxy, with their client certificate', async () => {
    const [service, proxy] = [await startSecureService(), await startProxy()];
    const direct = { connect: { ca: pem('server.pem') } };
    const sender = ending(
      Sender.withTenants({
        proxied: tenantAt(service.url, proxy.http),
        direct: tenantAt(service.url, { dispatcher: ({ Agent }) => keep(new Agent(direct)) }),
        plain: tenantAt(service.url, { attempts: 1 }),
      }),
    );
    await expect(sender.send({}, { tenant: 'direct' })).resolves.toMatchObject({
      body: { certificate: 'none' },
    });
    // Without the option ca, its self-signed certificate is not trusted.
    const refused = { code: 'service_unavailable' };
    await expect(sender.send({}, { tenant: 'plain' })).rejects.toMatchObject(refused);
    expect(proxy.tunnels).toEqual([]);
    for (const request of [{}, { operation: 'code', isOnce: true } as const]) {
      const byClient = { body: { certificate: 'client of the tests' } };
      await expect(sender.send(request, { tenant: 'proxied' })).resolves.toMatchObject(byClient);
    }
    expect(new Set(proxy.tunnels)).toEqual(new Set([new URL(service.url).host]));
  });

  it('is called once, by whichever tenants and calls, and closed by the host, not by the module', async () => {
    const { url } = await startSecureService();
    let asked = 0;
    const dispatcher = ({ Agent }: typeof import('undici')) => {
      asked += 1;
      return keep(new Agent({ connect: mutualTls }));
    };
    const sender = Sender.withTenants({ one: tenantAt(url), two: tenantAt(url) }, { dispatcher });
    await Promise.all(['one', 'two', 'one'].map((tenant) => sender.send({}, { tenant })));
    expect(asked).toBe(1);
    await sender.close();
    const reply = await made[0]?.request({ origin: url, path: '/', method: 'GET' });
    expect(reply?.statusCode).toBe(200);
    await reply?.body.dump();
  });

  it('that throws or answers something else is a configuration error', async () => {
    const fail = () => {
      throw new Error('no certificate here');
    };
    for (const dispatcher of [fail, () => ({}) as Dispatcher]) {
      const sender = ending(Sender.with('http://127.0.0.1:9', { dispatcher }));
      await expect(sender.send()).rejects.toMatchObject({ code: 'configuration_invalid', tenant: 'default' });
    }
  });
});

describe('names', () => {
  let names: NameServers;
  let server: TestServer;
  let sender: Sender;

  beforeEach(async () => {
    server = await serve((_request, response) => sendJson(response, [], 200, { connection: 'close' }));
    names = NameServers.start();
    sender = ending(Sender.with(server.url, { attempts: 1, attemptTimeout: 8_000 }));
  });
  afterEach(() => names.stop());

  /** A request to a name, on a connection of its own. */
  const ask = (name: string) => sender.send({ url: server.url.replace('127.0.0.1', name) });

  it('whose servers do not answer block one thread: other names, localhost and addresses do not wait', async () => {
    for (let request = 0; request < 20; request += 1) {
      ask('silent.test').catch(() => undefined);
    }
    await eventually(() => names.lookups.length === 1);
    const began = performance.now();
    const others = [
      'localhost',
      '127.0.0.1',
      ...Array.from({ length: 10 }, (_, index) => `name-${index}.test`),
    ];
    await Promise.all(others.map(ask));
    // Far less than a silent name blocks its thread.
    expect(performance.now() - began).toBeLessThan(1_500);
    expect(names.mostBlocked).toBe(1);
  });

  it('that are known do not wait for two that are silent, for 10 min, and follow their look-up', async () => {
    const clock = new TestClock();
    sender = ending(Sender.with(server.url, { attempts: 1, attemptTimeout: 8_000 }, clock));
    await ask('name.test');
    const silent = ['silent-1.test', 'silent-2.test'].map((name) => Promise.allSettled([ask(name)]));
    await eventually(() => names.mostBlocked === 2);
    const known = Promise.all(Array.from({ length: 10 }, () => ask('name.test')));
    expect(await Promise.race([known, Promise.all(silent)])).toHaveLength(10);
    // Their look-up goes on, and the next ones get what it answers.
    names.system.set('name.test', ['127.0.0.2']);
    names.giveUp();
    await eventually(() => names.lookups.filter((name) => name === 'name.test').length === 2);
    await expect(ask('name.test')).rejects.toMatchObject({ code: 'service_unavailable' });
    names.system.delete('name.test');
    await ask('name.test');
    clock.ahead = 600_001;
    names.silent.add('name.test');
    const late = Promise.allSettled([ask('name.test')]);
    expect(await Promise.race([late, pause(300)])).toBeUndefined();
    names.giveUp();
    expect(await late).toMatchObject([{ reason: { code: 'service_unavailable' } }]);
  });

  it('are looked up once by requests that come together', async () => {
    for (const times of [1, 2]) {
      await Promise.all(Array.from({ length: 10 }, () => ask('name.test')));
      expect([names.lookups.length, server.connected]).toEqual([times, 10 * times]);
    }
  });

  it('have the addresses of the operating system, in its order, and each is tried', async () => {
    names.system.set('name.test', ['127.0.0.2', '127.0.0.1']);
    await expect(ask('name.test')).resolves.toMatchObject({ status: 200 });
  });

  it('may have one address, where the host turned off autoSelectFamily', async () => {
    const before = getDefaultAutoSelectFamily();
    setDefaultAutoSelectFamily(false);
    const asked = Promise.all(['name.test', 'localhost'].map(ask));
    await asked.finally(() => setDefaultAutoSelectFamily(before));
    await expect(asked).resolves.toMatchObject([{ status: 200 }, { status: 200 }]);
  });
});
