import { readFileSync } from 'node:fs';
import { createServer as createHttp } from 'node:http';
import { createServer as createHttps } from 'node:https';
import { connect, type Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { afterEach, describe, expect, it } from '@jest/globals';
import type { Dispatcher } from 'undici';
import { Sender, tenantAt } from './transport-bench.js';
import { type TestServer, follow, sendJson } from '../support/server.js';

const pem = (name: string): string => readFileSync(new URL(`certificates/${name}`, import.meta.url), 'utf8');

const made: Dispatcher[] = [];
const stops: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) {
    await stop();
  }
  for (const dispatcher of made.splice(0)) {
    await dispatcher.destroy();
  }
});

function keep<D extends Dispatcher>(dispatcher: D): D {
  made.push(dispatcher);
  return dispatcher;
}

/** A TLS service that requests a client certificate and answers with its name. */
async function startSecureService(): Promise<TestServer> {
  const options = {
    key: pem('server.key'),
    cert: pem('server.pem'),
    ca: pem('ca.pem'),
    requestCert: true,
    rejectUnauthorized: false,
  };
  const server = await follow(
    createHttps(options, (request, response) => {
      server.requests.push(request);
      const socket = request.socket as TLSSocket;
      const name = socket.getPeerCertificate().subject?.CN;
      sendJson(response, { certificate: socket.authorized ? name : 'none' });
    }),
    'https',
  );
  stops.push(() => server.stop());
  return server;
}

/** A proxy with CONNECT only, which records its targets. */
async function startProxy(): Promise<TestServer & { tunnels: string[] }> {
  const tunnels: string[] = [];
  const proxy = createHttp((_request, response) => response.writeHead(405).end());
  proxy.on('connect', (request, client: Socket, head: Buffer) => {
    tunnels.push(request.url ?? '');
    const [host, port] = (request.url ?? '').split(':');
    const target = connect(Number(port), host, () => {
      client.write('HTTP/1.1 200 Connection Established\r\n\r\n');
      target.write(head);
      target.pipe(client).pipe(target);
    });
    for (const socket of [client, target]) {
      socket.on('error', () => undefined);
    }
  });
  const server = await follow(proxy, 'http');
  stops.push(() => server.stop());
  return { ...server, tunnels };
}

function closing(sender: Sender): Sender {
  stops.unshift(() => sender.close());
  return sender;
}

const mutualTls = { ca: pem('ca.pem'), key: pem('client.key'), cert: pem('client.pem') };

describe('http.dispatcher', () => {
  it('is called once for calls that begin together', async () => {
    const service = await startSecureService();
    let asked = 0;
    const dispatcher = ({ Agent }: typeof import('undici')) => {
      asked += 1;
      return keep(new Agent({ connect: mutualTls }));
    };
    const sender = closing(Sender.with(service.url, { dispatcher }));
    await Promise.all([sender.send({}), sender.send({}), sender.send({})]);
    expect(asked).toBe(1);
  });

  it('sends the client certificate', async () => {
    const service = await startSecureService();
    const sender = closing(
      Sender.with(service.url, { dispatcher: ({ Agent }) => keep(new Agent({ connect: mutualTls })) }),
    );
    await expect(sender.send()).resolves.toMatchObject({ body: { certificate: 'client of the tests' } });
  });

  it('sends everything through a CONNECT proxy, with the client certificate to the service', async () => {
    const [service, proxy] = [await startSecureService(), await startProxy()];
    const sender = closing(
      Sender.with(service.url, {
        dispatcher: ({ ProxyAgent }) => keep(new ProxyAgent({ uri: proxy.url, requestTls: mutualTls })),
      }),
    );
    await expect(sender.send()).resolves.toMatchObject({ body: { certificate: 'client of the tests' } });
    await expect(sender.send({ operation: 'code', repeat: 'never' })).resolves.toMatchObject({ status: 200 });
    expect(new Set(proxy.tunnels)).toEqual(new Set([new URL(service.url).host]));
  });

  it('applies to the tenants that set it only', async () => {
    const [service, proxy] = [await startSecureService(), await startProxy()];
    const direct = { connect: { ca: pem('ca.pem') } };
    const sender = closing(
      Sender.withTenants({
        proxied: tenantAt(service.url, {
          dispatcher: ({ ProxyAgent }) => keep(new ProxyAgent({ uri: proxy.url, requestTls: mutualTls })),
        }),
        direct: tenantAt(service.url, { dispatcher: ({ Agent }) => keep(new Agent(direct)) }),
        plain: tenantAt(service.url, { attempts: 1 }),
      }),
    );
    await expect(sender.send({}, { tenant: 'direct' })).resolves.toMatchObject({
      body: { certificate: 'none' },
    });
    // Without the CA of the tests, the certificate of the service is not trusted.
    await expect(sender.send({}, { tenant: 'plain' })).rejects.toMatchObject({ code: 'service_unavailable' });
    expect(proxy.tunnels).toHaveLength(0);
    await expect(sender.send({}, { tenant: 'proxied' })).resolves.toMatchObject({
      body: { certificate: 'client of the tests' },
    });
    expect(proxy.tunnels).toHaveLength(1);
  });

  it('is called once for each tenant that sets it, and once where it is set for all', async () => {
    const service = await startSecureService();
    let asked = 0;
    const dispatcher = ({ Agent }: typeof import('undici')) => {
      asked += 1;
      return keep(new Agent({ connect: mutualTls }));
    };
    const apart = closing(
      Sender.withTenants({
        one: tenantAt(service.url, { dispatcher }),
        two: tenantAt(service.url, { dispatcher }),
      }),
    );
    const together = closing(
      Sender.withTenants({ one: tenantAt(service.url), two: tenantAt(service.url) }, { dispatcher }),
    );
    for (const [sender, times] of [
      [apart, 2],
      [together, 3],
    ] as const) {
      for (const tenant of ['one', 'two', 'one']) {
        await sender.send({}, { tenant });
      }
      expect(asked).toBe(times);
    }
  });

  it('is closed by the host, not by the module', async () => {
    const service = await startSecureService();
    const sender = Sender.with(service.url, {
      dispatcher: ({ Agent }) => keep(new Agent({ connect: mutualTls })),
    });
    await sender.send();
    await sender.close();
    const [dispatcher] = made;
    const reply = await dispatcher?.request({ origin: service.url, path: '/', method: 'GET' });
    expect(reply?.statusCode).toBe(200);
    await reply?.body.dump();
  });

  it.each([
    [
      'throws',
      () => {
        throw new Error('no certificate here');
      },
    ],
    ['answers something else', () => ({}) as Dispatcher],
  ])('that %s is a configuration error', async (_what, dispatcher) => {
    const sender = closing(Sender.with('http://127.0.0.1:9', { dispatcher }));
    await expect(sender.send()).rejects.toMatchObject({ code: 'configuration_invalid', tenant: 'default' });
  });
});
