import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { afterEach } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { isExhibitorError, type HttpOptions, type SharedStore, type TenantOptions } from '../../lib/index.js';
import type { TokenMessage } from '../../lib/diagnostics/channels.js';
import { RestClient } from '../../lib/exhibitors/rest-client.service.js';
import { checkOptions } from '../../lib/options/check-options.js';
import { ProblemLog } from '../../lib/problems/problem-log.service.js';
import type { TenantRegistry } from '../../lib/tenants/tenant-registry.service.js';
import { Sealer } from '../../lib/store/sealer.service.js';
import { SharedValues } from '../../lib/store/shared-values.service.js';
import { Deadlines } from '../../lib/time/deadline.js';
import { TokenEndpoint } from '../../lib/tokens/token-endpoint.service.js';
import { TokenService } from '../../lib/tokens/token.service.js';
import { Transport } from '../../lib/transport/transport.service.js';
import { TestClock } from '../support/clock.js';
import { listen, sendJson } from '../support/server.js';
import { registryOf } from '../support/registry.js';
import { tenantAt } from '../support/tenant-at.js';
import { pause } from '../support/wait.js';

// The tests cause failures that operators are told of.
Logger.overrideLogger(['fatal']);

const SECRETS = ['a secret of the token tests, 32+ characters'];

/** The reply of a token endpoint: a body for 200, or nothing where it wrote the response itself. */
export type Answer = (form: URLSearchParams, count: number, response: ServerResponse) => unknown;

export interface BenchOptions {
  /** Differences from the usual options, by key. Default: one tenant, `acme`. */
  tenants?: Record<string, Partial<TenantOptions>>;
  http?: HttpOptions;
  store?: SharedStore;
}

const started: TokenBench[] = [];

/** Starts a token endpoint and a token service, which end after the test. */
export async function startBench(answer = granted(), options: BenchOptions = {}): Promise<TokenBench> {
  const server = createServer((request, response) => void bench.serve(request, response));
  const bench = new TokenBench(server, `http://127.0.0.1:${await listen(server)}`, answer, options);
  started.push(bench);
  return bench;
}
afterEach(() => Promise.all(started.splice(0).map((bench) => bench.stop())));

/** A token endpoint and a REST API on loopback, and a token service that uses them. */
export class TokenBench {
  /** The posted forms, in order, and their `Authorization` headers. */
  readonly posts: URLSearchParams[] = [];
  readonly authorizations: (string | undefined)[] = [];
  readonly messages: TokenMessage[] = [];
  readonly clock = new TestClock(0);
  readonly registry: TenantRegistry;
  readonly tokens: TokenService;
  readonly deadlines = new Deadlines(this.clock);
  /** Access tokens that the REST API refuses, and those that it received. */
  readonly revoked = new Set<string>();
  readonly received: string[] = [];
  readonly #transport: Transport;
  readonly #rest: RestClient;
  readonly #collect = (message: unknown): void => void this.messages.push(message as TokenMessage);

  constructor(
    private readonly server: ReturnType<typeof createServer>,
    readonly url: string,
    public answer: Answer,
    { tenants = { acme: {} }, http = {}, store }: BenchOptions,
  ) {
    const whole = Object.entries(tenants).map(([key, options]) => {
      const client = { tenantId: key, clientId: `${key}-api`, clientSecret: `${key} secret/+&` };
      return [key, { ...tenantAt(url), ...client, ...options }];
    });
    const checked = checkOptions({ tenants: Object.fromEntries(whole), http, store, secrets: SECRETS });
    this.registry = registryOf(checked, this.clock);
    const log = new ProblemLog(checked, this.clock);
    this.#transport = new Transport(this.clock, this.deadlines, log, checked);
    const values = new SharedValues(checked, new Sealer(checked, this.clock), this.clock, log);
    const endpoint = new TokenEndpoint(this.clock, this.#transport);
    this.tokens = new TokenService(this.registry, this.clock, this.deadlines, endpoint, values, log);
    this.#rest = new RestClient(this.#transport, this.tokens, log);
    subscribe('nestjs-exhibitor:token', this.#collect);
  }

  /** Outcomes on the diagnostics channel, in order. */
  get outcomes(): string[] {
    return this.messages.map(({ outcome }) => outcome);
  }

  async text(tenant = 'acme'): Promise<string> {
    return (await this.tokens.getToken({ tenant })).accessToken;
  }

  /** A call of the REST API; answers its status or the code of its error. */
  async call(): Promise<number | string> {
    const tenant = await this.registry.get('acme');
    const deadline = this.deadlines.start(10_000);
    try {
      const request = { operation: 'list', path: '/list', template: '/list' } as const;
      return (await this.#rest.get(tenant, request, deadline)).status;
    } catch (error) {
      return isExhibitorError(error) ? error.code : String(error);
    } finally {
      deadline.clear();
    }
  }

  async stop(): Promise<void> {
    unsubscribe('nestjs-exhibitor:token', this.#collect);
    await this.#transport.onApplicationShutdown();
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.method === 'GET') {
      const token = (request.headers.authorization ?? '').slice('Bearer '.length);
      this.received.push(token);
      sendJson(response, {}, this.revoked.has(token) ? 401 : 200);
      return;
    }
    let text = '';
    for await (const chunk of request) {
      text += String(chunk);
    }
    const form = new URLSearchParams(text);
    const count = this.posts.push(form);
    this.authorizations.push(request.headers.authorization);
    const body = await this.answer(form, count, response);
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
