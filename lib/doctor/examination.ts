import type { IncomingHttpHeaders } from 'node:http';
import { Agent, request } from 'undici';
import { ConfigurationError } from '../errors/configuration.error.js';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import type { Metadata } from '../oidc/parse-metadata.js';
import { SINGLE_TENANT, type CheckedOptions } from '../options/check-options.js';
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
import { unknown, wrong, type DiagnosisHints, type Verdict } from './finding.interface.js';

const MOST_REQUESTS = 12;

/** Codes of names that do not resolve. Other failures are those of a connection. */
const NAME_FAILURES = ['ENOTFOUND', 'EAI_AGAIN'];

/** A reply of any status and type. */
export interface Reply {
  /** 0 where there is none. */
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
  /** `undefined` where the text is no JSON. */
  json: unknown;
  /** In ms since 1970. */
  receivedAt: number;
  /** Of the token endpoint. */
  error?: OAuthFailure | undefined;
  /** Why there is no reply, and the option with a function that failed. */
  failure?: string;
  option?: string | undefined;
  /** Why the request was not sent. */
  blocked?: string;
}

const NO_REPLY: Reply = { status: 0, headers: {}, text: '', json: undefined, receivedAt: 0 };

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
  /** Origins without a reply, with the reason. */
  readonly unreached = new Map<string, string>();
  /** Options that are wrong, with the step that found it. */
  readonly refuted = new Map<string, string>();
  /** The access token of the REST API, and the page of the list that it was let in to. */
  token: string | undefined;
  page: Reply | undefined;
  /** Addresses that the provider publishes. */
  published: Metadata['urls'] = {};
  /** Whether the authorize endpoint knows `login.clientId`, where it said so. */
  knowsClient: boolean | undefined;
  loginVerdict: Promise<Verdict> | undefined;

  readonly #replies = new Map<string, Reply>();
  readonly #clock = new Clock();
  readonly #problems: Problems;
  readonly #transport: Transport;
  readonly #endpoint: TokenEndpoint;
  readonly #agent: Agent;
  #sent = 0;

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
    this.#problems = new Problems(checked, this.#clock);
    this.#transport = new Transport(this.#clock, new Deadlines(this.#clock), this.#problems, checked);
    this.#endpoint = new TokenEndpoint(this.#clock, this.#transport);
    this.#transport.dispatcherOf(this.tenant);
    // Without keep-alive: a connection that the server is closing would fail a request.
    this.#agent = new Agent({ pipelining: 0, maxResponseSize: this.tenant.http.maxResponseBytes });
  }

  /** The reply to a GET; to one without headers always the first reply. Throws only `aborted`. */
  async get(url: string, headers?: Record<string, string>): Promise<Reply> {
    const known = this.#replies.get(url);
    if (known !== undefined && headers === undefined) {
      return known;
    }
    const reply = this.#refusalOf(url) ?? (await this.#send(url, headers));
    this.#replies.set(url, known ?? reply);
    return reply;
  }

  async #send(url: string, headers: Record<string, string> = {}): Promise<Reply> {
    const { signal } = this.hints;
    const limit = AbortSignal.timeout(this.tenant.http.attemptTimeout);
    try {
      const reply = await request(url, {
        headers: { accept: 'application/json', 'user-agent': 'nestjs-exhibitor', ...headers },
        dispatcher: this.#transport.dispatcherOf(this.tenant) ?? this.#agent,
        signal: signal === undefined ? limit : AbortSignal.any([limit, signal]),
      });
      const receivedAt = this.#clock.epochMs();
      const text = await reply.body.text();
      return { status: reply.statusCode, headers: reply.headers, text, json: parseJson(text), receivedAt };
    } catch (error) {
      if (signal?.aborted === true) {
        throw new ExhibitorError('aborted', 'the caller aborted the diagnosis');
      }
      const failure = error instanceof Error && !limit.aborted ? errorCode(error) : 'no answer in time';
      return { ...NO_REPLY, failure };
    }
  }

  /** Asks the token endpoint, with other client authentication than that of the options if `auth` is given. Throws only `aborted`. */
  async grant(
    kind: 'token' | 'code',
    tokenUrl: string,
    form: Readonly<Record<string, string>>,
    auth?: 'post' | 'basic',
  ): Promise<Reply> {
    const refusal = this.#refusalOf(tokenUrl);
    if (refusal !== undefined) {
      return refusal;
    }
    this.#problems.reported = {};
    const deadline = new Deadline(this.#clock, this.tenant.http.deadline, this.hints.signal);
    try {
      const client = { ...(await this.#client(kind, tokenUrl, deadline)), ...(auth && { auth }) };
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
      deadline.clear();
    }
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

  /** Why a request is not sent. Else it is counted. */
  #refusalOf(url: string): Reply | undefined {
    const { origin } = new URL(url);
    const failure = this.unreached.get(origin);
    if (failure !== undefined) {
      return { ...NO_REPLY, blocked: notTested(stepOf(failure), origin) };
    }
    this.#sent += 1;
    return this.#sent > MOST_REQUESTS
      ? { ...NO_REPLY, blocked: 'not tested: a dozen requests were sent' }
      : undefined;
  }

  async close(): Promise<void> {
    await this.#transport.onModuleDestroy();
    await this.#agent.destroy();
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The step that reports a failure to connect. */
export function stepOf(failure: string): 'names' | 'tls' {
  return NAME_FAILURES.includes(failure) ? 'names' : 'tls';
}

export function notTested(step: string, what?: string): string {
  return `not tested: the step '${step}' failed${what === undefined ? '' : ` for ${what}`}`;
}

/** The verdict on an address without the reply that it should give. */
export function unusable(reply: Reply, option: string, what: string): Verdict {
  const { status, failure, blocked } = reply;
  if (blocked !== undefined || status === 429 || status >= 500) {
    return unknown(blocked ?? `${what} answers ${status}: try again later`);
  }
  return wrong(reply.option ?? option, `${what}: ${failure ?? `status ${status} is no such reply`}`);
}

/** The URL of an endpoint as a login finds it, or why it cannot be tested. */
export function endpointOf(
  { tenant, published, refuted }: Examination,
  name: 'authorize' | 'token',
): string | Verdict {
  const option = tenant.endpointOption(name);
  const set = tenant.settings.endpoints?.[name] ?? tenant.defaultEndpoint(name);
  const url = option === 'login.discovery' ? published[name] : set;
  const step = typeof url === 'string' ? refuted.get(option) : 'metadata';
  return step === undefined && typeof url === 'string' ? url : unknown(notTested(step ?? '', option));
}
