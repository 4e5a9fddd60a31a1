import type { IncomingMessage, ServerResponse } from 'node:http';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { afterEach } from '@jest/globals';
import { firstValueFrom } from 'rxjs';
import { TokenService, type HttpOptions, type SharedStore, type TenantOptions } from '../../lib/index.js';
import type { TokenMessage } from '../../lib/call/channels.js';
import { Clock } from '../../lib/call/clock.js';
import { startRestHost, wrapper, type RestHost } from '../exhibitors/rest-host.js';
import { sendJson, startServer, type TestServer } from '../support/server.js';
import { tenantAt } from '../support/tenant-at.js';
import { pause } from '../support/wait.js';

/** The reply of a token endpoint: a body for 200, or nothing where it wrote the response itself. */
export type Answer = (form: URLSearchParams, count: number, response: ServerResponse) => unknown;

export interface BenchOptions {
  /** Differences from the usual options, by key. Default: one tenant, `acme`. */
  tenants?: Record<string, Partial<TenantOptions>>;
  http?: HttpOptions;
  store?: SharedStore;
  secrets?: string[];
}

const started: TokenBench[] = [];
afterEach(() => Promise.all(started.splice(0).map((bench) => bench.stop())));

/** Starts a token endpoint and an application, which end after the test. */
export async function startBench(
  answer = granted(),
  { tenants = { acme: {} }, ...options }: BenchOptions = {},
): Promise<TokenBench> {
  const server = await startServer((request, response) => void bench.serve(request, response));
  const whole = Object.entries(tenants).map(([key, changed]) => {
    const client = { tenantId: key, clientId: `${key}-api`, clientSecret: `${key} secret/+&` };
    return [key, { ...tenantAt(server.url), ...client, ...changed }];
  });
  const host = await startRestHost({ tenants: Object.fromEntries(whole), ...options });
  const bench = new TokenBench(server, host, answer);
  started.push(bench);
  return bench;
}

/** A token endpoint and a REST API on loopback, and an application whose tokens are theirs. */
export class TokenBench {
  /** The posted forms, in order, and their `Authorization` headers. */
  readonly posts: URLSearchParams[] = [];
  readonly authorizations: (string | undefined)[] = [];
  readonly messages: TokenMessage[] = [];
  /** How far the clock of the application is ahead, in ms, and its random number. */
  readonly clock = { ahead: 0, chance: 0 };
  readonly tokens: TokenService;
  readonly url: string;
  /** Status of the REST API, unless it refuses the token. */
  status = 200;
  /** Access tokens that the REST API refuses, and those that it received. */
  readonly revoked = new Set<string>();
  readonly received: string[] = [];
  readonly #collect = (message: unknown): void => void this.messages.push(message as TokenMessage);

  constructor(
    private readonly server: TestServer,
    private readonly host: RestHost,
    public answer: Answer,
  ) {
    this.url = server.url;
    this.tokens = host.context.get(TokenService);
    const clock = host.context.get(Clock, { strict: false });
    const [now, epochMs] = [clock.now.bind(clock), clock.epochMs.bind(clock)];
    clock.now = () => now() + this.clock.ahead;
    clock.epochMs = () => epochMs() + this.clock.ahead;
    clock.random = () => this.clock.chance;
    subscribe('nestjs-exhibitor:token', this.#collect);
  }

  /** Outcomes on the diagnostics channel, in order. */
  get outcomes(): string[] {
    return this.messages.map(({ outcome }) => outcome);
  }

  async text(tenant?: string): Promise<string> {
    return (await this.tokens.getToken({ tenant })).accessToken;
  }

  /** A call of the REST API; answers `a page` or the code of its error. */
  call(deadline?: number): Promise<string> {
    return firstValueFrom(this.host.exhibitors.list('event', { deadline })).then(
      () => 'a page',
      ({ code }) => code,
    );
  }

  async stop(): Promise<void> {
    unsubscribe('nestjs-exhibitor:token', this.#collect);
    await this.host.close();
    await this.server.stop();
  }

  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method, headers } = request;
    if (method === 'GET') {
      const token = (headers.authorization ?? '').slice('Bearer '.length);
      this.received.push(token);
      return sendJson(response, wrapper(1, 0, 0), this.revoked.has(token) ? 401 : this.status);
    }
    const form = new URLSearchParams(String(Buffer.concat(await request.toArray())));
    this.authorizations.push(headers.authorization);
    const body = await this.answer(form, this.posts.push(form), response);
    if (body !== undefined) {
      sendJson(response, body);
    }
  }
}

/** Grants `token-1`, `token-2` and so on; `fields` replace those of the reply. */
export function granted(fields: Record<string, unknown> = {}): Answer {
  const whole = { expires_in: 3600, token_type: 'Bearer', scope: 'idp_api' };
  return (_form, count) => ({ access_token: `token-${count}`, ...whole, ...fields });
}

/** Refuses with an OAuth error. */
export function refused(error: string, status = 400, description?: string): Answer {
  return (_form, _count, response) => sendJson(response, { error, error_description: description }, status);
}

/** Answers later. */
export function slowly(answer: Answer = granted()): Answer {
  return async (...request) => {
    await pause(30);
    return answer(...request);
  };
}

/** Keeps the requests that arrive while it is the answer, in order, until each is released. */
export function heldBack(answer: Answer = granted()): { answer: Answer; release: (() => void)[] } {
  const release: (() => void)[] = [];
  const held: Answer = async (...request) => {
    await new Promise<void>((resolve) => release.push(resolve));
    return answer(...request);
  };
  return { answer: held, release };
}
