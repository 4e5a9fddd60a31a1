import type { IncomingHttpHeaders } from 'node:http';
import { Agent, request, type Dispatcher } from 'undici';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import type { Metadata } from '../oidc/parse-metadata.js';
import { hideSecrets } from '../model/untrusted-text.js';
import type { OAuthFailure } from '../problems/token-endpoint-problems.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import { authenticated, hiddenForms, type OAuthClient } from '../tokens/client-authentication.js';
import { parseOAuthError } from '../tokens/token-reply.js';
import { HostDispatchers } from '../transport/wire/host-dispatchers.js';
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
  /** Why there is no reply. */
  failure?: string;
}

/** A step cannot be tested; the message says why. */
export class NotTested extends Error {}

/** The requests of one diagnosis, one at a time and each once, and what the steps found so far. */
export class Examination {
  /** First replies, by the URL of their request. */
  readonly #first = new Map<string, Reply>();
  /** Origins without a reply, with the reason. */
  readonly unreached = new Map<string, string>();
  /** Options that are wrong, with the step that found it. */
  readonly refuted = new Map<string, string>();
  /** The access token of the REST API, and the page that it gave. */
  token: string | undefined;
  page: Reply | undefined;
  /** Addresses that the provider publishes. */
  published: Metadata['urls'] = {};
  /** Whether the authorize endpoint knows `login.clientId`, where it said so. */
  knowsClient: boolean | undefined;
  loginVerdict: Promise<Verdict> | undefined;

  readonly #clock = new Clock();
  readonly #agent: Agent;
  readonly #dispatcher: Dispatcher;
  /** What a client was authenticated with. */
  readonly #secrets: string[] = [];
  #sent = 0;

  /** @throws {ConfigurationError} where `http.dispatcher` fails */
  constructor(
    readonly tenant: Tenant,
    readonly hints: DiagnosisHints,
  ) {
    // Without keep-alive: a connection that the server is closing would fail a request.
    this.#agent = new Agent({ pipelining: 0, maxResponseSize: tenant.http.maxResponseBytes });
    this.#dispatcher = new HostDispatchers().of(tenant) ?? this.#agent;
  }

  /** The first reply to a GET without further headers. */
  async first(url: string): Promise<Reply> {
    const reply = this.#first.get(url) ?? (await this.send(url));
    this.#first.set(url, reply);
    return reply;
  }

  /**
   * Sends a GET, or a POST of `body`.
   *
   * @throws {NotTested} where there was no connection before, and after a dozen requests
   * @throws {ExhibitorError} `aborted`
   */
  async send(url: string, headers: Record<string, string> = {}, body?: string): Promise<Reply> {
    const { origin } = new URL(url);
    const known = this.unreached.get(origin);
    if (known !== undefined) {
      throw new NotTested(`the step '${stepOf(known)}' failed for ${origin}`);
    }
    this.#sent += 1;
    if (this.#sent > MOST_REQUESTS) {
      throw new NotTested('a dozen requests were sent');
    }
    const { signal } = this.hints;
    const limit = AbortSignal.timeout(this.tenant.http.attemptTimeout);
    try {
      const reply = await request(url, {
        method: body === undefined ? 'GET' : 'POST',
        headers: { accept: 'application/json', 'user-agent': 'nestjs-exhibitor', ...headers },
        body,
        dispatcher: this.#dispatcher,
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
      return { status: 0, headers: {}, text: '', json: undefined, receivedAt: 0, failure };
    }
  }

  /** Asks the token endpoint. */
  async grant(client: OAuthClient, form: Readonly<Record<string, string>>): Promise<Reply> {
    const { headers, body } = authenticated(client, form, this.#clock);
    const type = { 'content-type': 'application/x-www-form-urlencoded' };
    const text = typeof body === 'string' ? body : await body();
    const reply = await this.send(client.tokenUrl, { ...headers, ...type }, text);
    this.#secrets.push(...hiddenForms(client, { headers, body }));
    return { ...reply, error: parseOAuthError(reply.json, [...Object.values(form), ...this.#secrets]) };
  }

  /** Text of a reply as a finding shows it. A provider may repeat what an earlier request contained. */
  shown(value: unknown, longest = 200): string {
    const hidden = [...this.#secrets, this.token ?? ''];
    return typeof value === 'string' ? hideSecrets(value, hidden, longest) : 'no usable address';
  }

  close(): Promise<void> {
    return this.#agent.destroy();
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

/** The verdict on an address without the reply that it should give. */
export function unusable({ status, failure }: Reply, option: string, what: string): Verdict {
  return status === 429 || status >= 500
    ? unknown(`${what} answers ${status}: try again later`)
    : wrong(option, `${what}: ${failure ?? `status ${status} is no such reply`}`);
}

/** The URL of an endpoint as a login finds it. */
export function endpointOf(examination: Examination, name: 'authorize' | 'token'): string {
  const { tenant, published, refuted } = examination;
  const option = tenant.endpointOption(name);
  const set = tenant.settings.endpoints?.[name] ?? tenant.defaultEndpoint(name);
  const url = option === 'login.discovery' ? published[name] : set;
  if (typeof url !== 'string' || refuted.has(option)) {
    throw new NotTested(`the step '${refuted.get(option) ?? 'metadata'}' failed for ${option}`);
  }
  return url;
}
