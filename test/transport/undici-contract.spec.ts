import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Agent, buildConnector, Client, Pool, type Dispatcher } from 'undici';
import { type TestServer, sendJson, startServer } from '../support/server.js';
import { eventually, pause } from '../support/wait.js';

// What `lib/transport/wire/connections.ts` relies on. undici documents none of it.

let server: TestServer;
let agent: Agent;
let clients: ProbedClient[];
let connect: buildConnector.connector;

/** A request with its own end, and the client that it was given to. */
class ProbedRequest implements Dispatcher.DispatchOptions {
  readonly method = 'GET';
  readonly path = '/';
  readonly origin = server.url;
  client: ProbedClient | undefined;
  hasStarted = false;
  end: 'response' | Error | undefined;

  readonly handler: Dispatcher.DispatchHandler = {
    onRequestStart: () => (this.hasStarted = true),
    onResponseEnd: () => (this.end = 'response'),
    onResponseError: (_controller, error) => (this.end = error),
  };

  send(dispatcher: Dispatcher = agent): this {
    dispatcher.dispatch(this, this.handler);
    return this;
  }
}

/** A client that tells which requests it is given, and when it connects. */
class ProbedClient extends Client {
  readonly requests: ProbedRequest[] = [];
  /** Largest number of requests that it had at once. */
  most = 0;
  connects = 0;

  constructor(origin: string | URL) {
    super(origin, {
      pipelining: 1,
      connect: (...args) => {
        this.connects += 1;
        connect(...args);
      },
    });
    clients.push(this);
  }

  override dispatch(request: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    if (request instanceof ProbedRequest) {
      request.client = this;
      this.requests.push(request);
    }
    this.most = Math.max(this.most, this.requests.filter(({ end }) => end === undefined).length);
    return super.dispatch(request, handler);
  }
}

beforeEach(async () => {
  server = await startServer((_request, response) => void setTimeout(() => sendJson(response), 5));
  clients = [];
  connect = buildConnector({});
  agent = new Agent({
    factory: (origin, options) => new Pool(origin, { ...options, factory: (url) => new ProbedClient(url) }),
  });
});
afterEach(async () => {
  await agent.destroy();
  await Promise.all(clients.map((client) => client.destroy()));
  await server.stop();
});

describe('undici', () => {
  it('passes a request on to a client as it is', () => {
    const request = new ProbedRequest().send();
    expect(request.client).toBe(clients[0]);
  });

  it('gives a client a request only after the last one has ended', async () => {
    const requests: ProbedRequest[] = [];
    for (let turn = 0; turn < 20; turn++) {
      requests.push(new ProbedRequest().send(), new ProbedRequest().send());
      await pause(3);
    }
    await eventually(() => requests.every(({ end }) => end === 'response'));
    expect(clients.length).toBeLessThan(requests.length / 2);
    expect(Math.max(...clients.map(({ most }) => most))).toBe(1);
  });

  it('connects where a request is dispatched, and hands it over when it is connected', async () => {
    let open = (): void => undefined;
    const { url } = server;
    connect = (options, callback) => (open = () => buildConnector({})(options, callback));
    const client = new ProbedClient(url);
    const request = new ProbedRequest().send(client);
    await pause(20);
    expect([client.connects, request.hasStarted]).toEqual([1, false]);
    open();
    await eventually(() => request.end === 'response');
    expect(client.connects).toBe(1);
  });

  it('connects again for a request after an error with a code of its own', async () => {
    const errors = [Object.assign(new Error('closed'), { code: 'UND_ERR_SOCKET' })];
    connect = (options, callback) => {
      const error = errors.pop();
      if (error === undefined) {
        buildConnector({})(options, callback);
      } else {
        queueMicrotask(() => callback(error, null));
      }
    };
    const request = new ProbedRequest().send();
    await eventually(() => request.end === 'response');
    expect(request.client?.connects).toBe(2);
  });

  it('fails a request after any other error of `connect`, and does not send it later', async () => {
    const unwanted = new Error('unwanted');
    connect = (_options, callback) => queueMicrotask(() => callback(unwanted, null));
    const request = new ProbedRequest().send();
    await eventually(() => request.end === unwanted);
    connect = buildConnector({});
    const next = new ProbedRequest().send();
    await eventually(() => next.end === 'response');
    expect([request.client?.connects, request.hasStarted]).toEqual([1, false]);
    expect(server.requests).toHaveLength(1);
  });
});
