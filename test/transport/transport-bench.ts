import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo, Server as NetServer, Socket } from 'node:net';
import { checkOptions } from '../../lib/options/check-options.js';
import type { HttpOptions, TenantOptions } from '../../lib/index.js';
import { TenantRegistry } from '../../lib/tenants/tenant-registry.service.js';
import type { Tenant } from '../../lib/tenants/tenant.js';
import { Clock } from '../../lib/time/clock.js';
import { Deadline } from '../../lib/time/deadline.js';
import type { TransportReply, TransportRequest } from '../../lib/transport/transport-request.interface.js';
import { Transport } from '../../lib/transport/transport.service.js';

/** A server of a test with what it saw. */
export interface TestServer {
  url: string;
  requests: IncomingMessage[];
  connections: Set<Socket>;
  /** Connections that were ever made. */
  connected: number;
  stop(): Promise<void>;
}

/** Starts an HTTP server on loopback. */
export async function startServer(
  listener: (request: IncomingMessage, response: ServerResponse, count: number) => void,
): Promise<TestServer> {
  const seen: RequestListener = (request, response) => {
    const count = test.requests.push(request);
    request.resume();
    listener(request, response, count);
  };
  const server: Server = createServer(seen);
  const test = await follow(server, 'http');
  return test;
}

/** Lets a server of any kind listen, and follows its connections. */
export async function follow(server: NetServer, scheme: 'http' | 'https'): Promise<TestServer> {
  const connections = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    test.connected += 1;
    connections.add(socket);
    socket.on('close', () => connections.delete(socket)).on('error', () => undefined);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const test: TestServer = {
    url: `${scheme}://${scheme === 'https' ? 'localhost' : '127.0.0.1'}:${port}`,
    requests: [],
    connections,
    connected: 0,
    stop: () =>
      new Promise((resolve) => {
        for (const socket of connections) {
          socket.destroy();
        }
        server.close(() => resolve());
      }),
  };
  return test;
}

export function sendJson(
  response: ServerResponse,
  body: unknown = [],
  status = 200,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
}

/** A transport with tenants, built by hand. */
export class Sender {
  readonly registry: TenantRegistry;
  readonly transport: Transport;

  private constructor(
    options: unknown,
    readonly clock: Clock,
  ) {
    this.registry = new TenantRegistry(checkOptions(options), clock);
    this.transport = new Transport(clock);
  }

  static with(url: string, http: HttpOptions = {}, clock = new Clock()): Sender {
    return new Sender({ tenant: tenantAt(url), http }, clock);
  }

  static withTenants(tenants: Record<string, TenantOptions>, http: HttpOptions = {}): Sender {
    return new Sender({ tenants, http }, new Clock());
  }

  tenant(key = 'default'): Promise<Tenant> {
    return this.registry.get(key);
  }

  /** Sends a GET of the list, unless told otherwise. */
  async send(
    request: Partial<TransportRequest> = {},
    call: { tenant?: string; deadline?: number; signal?: AbortSignal } = {},
  ): Promise<TransportReply> {
    const tenant = await this.tenant(call.tenant);
    const deadline = Deadline.start(this.clock, call.deadline ?? tenant.http.deadline, call.signal);
    const whole: TransportRequest = {
      operation: 'list',
      method: 'GET',
      url: `${tenant.baseUrl}/list`,
      template: '/list',
      ...request,
    };
    return this.transport.send(tenant, whole, deadline).finally(() => deadline.end());
  }

  close(): Promise<void> {
    return this.transport.onModuleDestroy();
  }
}

export function tenantAt(url: string, http?: HttpOptions): TenantOptions {
  return {
    tenantId: 'test-tenant',
    baseUrl: url,
    authUrl: url,
    clientId: 'client',
    clientSecret: 'secret-of-the-test',
    http,
  };
}

/** A clock that the test moves, and a chance it sets. */
export class TestClock extends Clock {
  ahead = 0;
  chance = 0.5;

  override now(): number {
    return super.now() + this.ahead;
  }

  override epochMs(): number {
    return super.epochMs() + this.ahead;
  }

  override random(): number {
    return this.chance;
  }
}

/** Waits until something has happened; fails after a generous while. */
export async function eventually(condition: () => boolean): Promise<void> {
  for (let turn = 0; turn < 500; turn += 1) {
    if (condition()) {
      return;
    }
    await pause(10);
  }
  throw new Error('it did not happen within 5 s');
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
