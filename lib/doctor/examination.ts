import type { IncomingHttpHeaders } from 'node:http';
import { Agent, request } from 'undici';
import { ConfigurationError } from '../errors/configuration.error.js';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import type { Metadata } from '../oidc/parse-metadata.js';
import { SINGLE_TENANT, type CheckedOptions } from '../options/check-options.js';
import { bootAdvice } from '../problems/boot-advice.js';
import { ProblemLog } from '../problems/problem-log.service.js';
import type { Problem } from '../problems/problem.interface.js';
import type { OAuthFailure } from '../problems/token-endpoint-problems.js';
import { browserLoginOf, Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import { Deadline } from '../time/deadline.js';
import { Deadlines } from '../time/deadlines.service.js';
import type { OAuthClient } from '../tokens/client-authentication.js';
import { readApiClient, withSecret } from '../tokens/client-secret.js';
import { TokenEndpoint } from '../tokens/token-endpoint.service.js';
import { Transport } from '../transport/transport.service.js';
import { errorCode } from '../transport/wire/stale-connection.js';
import { SERVICE, unknown, wrong, type DiagnosisHints, type Verdict } from './finding.interface.js';

/** A reply of any status and type. */
export interface Reply {
  /** 0: there was none. */
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
  /** `undefined` where it is no JSON. */
  json: unknown;
  /** In ms since 1970. */
  receivedAt: number;
  /** Why there is none: `ENOTFOUND`. */
  failure?: string;
  /** The request was not sent: why. */
  blocked?: string;
  /** The option whose function failed. */
  option?: string | undefined;
  /** Of the token endpoint. */
  error?: OAuthFailure | undefined;
}

/** Keeps what the module would log. */
class Problems extends ProblemLog {
  reported: Partial<Problem> = {};

  override report(_tenant: unknown, problem: Problem | undefined): void {
    this.reported = problem ?? {};
  }
}

/** The requests of one diagnosis, one at a time and each once, and what the steps found so far. */
export class Examination {
  readonly tenant: Tenant;
  /** Options that are allowed and most likely wrong. */
  readonly advice: readonly string[];
  /** Origins that gave no reply, with the step that found it and the options that name them. */
  readonly unreached = new Map<string, { step: string; failure: string; options: string[] }>();
  /** Options that are wrong, with the step that found it. */
  readonly refuted = new Map<string, string>();
  /** First replies of the service (`baseUrl`) and of the provider (`authUrl`, `login.issuer`). */
  readonly first = new Map<string, Reply>();
  /** The access token of the REST API, and the reply of the list endpoint to it. */
  token: string | undefined;
  page: Reply | undefined;
  /** Addresses that the provider publishes. */
  published: Metadata['urls'] = {};
  /** Whether the authorize endpoint knows `login.clientId`; `undefined`: it did not say. */
  knowsClient: boolean | undefined;

  readonly #clock = new Clock();
  readonly #problems: Problems;
  readonly #transport: Transport;
  readonly #endpoint: TokenEndpoint;
  readonly #agent: Agent;

  /** @throws {ConfigurationError} where `http.dispatcher` fails */
  constructor(
    checked: CheckedOptions,
    readonly hints: DiagnosisHints,
  ) {
    const [settings] = 'find' in checked.tenants ? [] : checked.tenants.values();
    if (settings === undefined) {
      throw new ConfigurationError([{ path: 'tenant', expected: 'is required' }]);
    }
    this.tenant = new Tenant(SINGLE_TENANT, settings, checked.settings.http);
    this.advice = bootAdvice(checked).map((line) => line.replace('tenant.', ''));
    this.#problems = new Problems(checked, this.#clock);
    this.#transport = new Transport(this.#clock, new Deadlines(this.#clock), this.#problems, checked);
    this.#endpoint = new TokenEndpoint(this.#clock, this.#transport);
    this.#transport.dispatcherOf(this.tenant);
    // Without keep-alive: a connection that the server is closing would fail a request.
    this.#agent = new Agent({ pipelining: 0, maxResponseSize: this.tenant.http.maxResponseBytes });
  }

  /** Sends a GET. Throws only `aborted`. */
  async get(url: string, headers: Record<string, string> = {}): Promise<Reply> {
    const blocked = this.#blocked(url);
    const { signal } = this.hints;
    const limit = AbortSignal.timeout(this.tenant.http.attemptTimeout);
    try {
      if (blocked !== undefined) {
        return { ...NO_REPLY, blocked };
      }
      const {
        statusCode,
        headers: received,
        body,
      } = await request(url, {
        headers: { accept: 'application/json', 'user-agent': 'nestjs-exhibitor', ...headers },
        dispatcher: this.#transport.dispatcherOf(this.tenant) ?? this.#agent,
        signal: signal === undefined ? limit : AbortSignal.any([limit, signal]),
      });
      const receivedAt = this.#clock.epochMs();
      const text = await body.text();
      return { status: statusCode, headers: received, text, json: parseJson(text), receivedAt };
    } catch (error) {
      if (signal?.aborted === true) {
        throw new ExhibitorError('aborted', 'the caller aborted the diagnosis');
      }
      const failure = error instanceof Error && !limit.aborted ? errorCode(error) : 'no answer in time';
      return { ...NO_REPLY, failure };
    }
  }

  /**
   * Asks the token endpoint, exactly once. Throws only `aborted`.
   *
   * @param auth default: that of the options
   */
  async grant(
    kind: 'token' | 'code',
    tokenUrl: string,
    form: Readonly<Record<string, string>>,
    auth?: OAuthClient['auth'],
  ): Promise<Reply> {
    const blocked = this.#blocked(tokenUrl);
    if (blocked !== undefined) {
      return { ...NO_REPLY, blocked };
    }
    this.#problems.reported = {};
    const deadline = new Deadline(this.#clock, this.tenant.http.deadline, this.hints.signal);
    try {
      const own = await this.#client(kind, tokenUrl, deadline);
      const client = auth === undefined ? own : { ...own, auth };
      const grant = { operation: kind, form, secrets: Object.values(form), repeat: 'never' } as const;
      const { status, body, error } = await this.#endpoint.send(this.tenant, client, grant, deadline);
      return { ...NO_REPLY, status, json: body, error };
    } catch (error) {
      if (!isExhibitorError(error) || error.code === 'aborted') {
        throw error;
      }
      const { cause, message, options } = this.#problems.reported;
      const option = cause?.endsWith(' function') === true ? options?.[0] : undefined;
      return { ...NO_REPLY, status: error.status ?? 0, failure: message ?? error.message, option };
    } finally {
      deadline.end();
    }
  }

  async close(): Promise<void> {
    await this.#transport.onModuleDestroy();
    await this.#agent.destroy();
  }

  #client(kind: 'token' | 'code', tokenUrl: string, deadline: Deadline): Promise<OAuthClient> {
    if (kind === 'token') {
      return readApiClient(this.tenant, deadline, this.#problems);
    }
    const { clientId: id, clientAuth: auth, clientSecret, issuer: audience } = browserLoginOf(this.tenant);
    const option = { name: 'login.clientSecret', code: 'service_unavailable' } as const;
    const client = { id, auth, audience, tokenUrl };
    return withSecret(client, clientSecret, option, this.tenant, deadline, this.#problems);
  }

  #blocked(url: string): string | undefined {
    const { origin } = new URL(url);
    const known = this.unreached.get(origin);
    return known && `not tested: the step '${known.step}' got no reply of ${origin}`;
  }
}

const NO_REPLY: Reply = { status: 0, headers: {}, text: '', json: undefined, receivedAt: 0 };

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The verdict on an address without the reply that it should give. */
export function unusable(reply: Reply, option: string, what: string): Verdict {
  const { status, failure, blocked } = reply;
  if (blocked !== undefined || status === 429 || status >= 500) {
    return unknown(blocked ?? `${what} answers ${status}: try again later`);
  }
  return wrong(reply.option ?? option, `${what}: ${failure ?? `status ${status} is no such reply`}`, SERVICE);
}

/** The URL of an endpoint as a login finds it, or why it cannot be tested. */
export function endpointOf(examination: Examination, name: 'authorize' | 'token'): string | Verdict {
  const { tenant, published, refuted: known } = examination;
  const option = tenant.endpointOption(name);
  const set = tenant.settings.endpoints?.[name] ?? tenant.defaultEndpoint(name);
  const url = option === 'login.discovery' ? published[name] : set;
  if (typeof url !== 'string' || known.has(option)) {
    return unknown(`not tested: the step '${known.get(option) ?? 'metadata'}' failed for ${option}`);
  }
  return url;
}
