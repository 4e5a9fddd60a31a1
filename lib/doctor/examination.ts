import type { IncomingHttpHeaders } from 'node:http';
import { Agent, request, type Dispatcher } from 'undici';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { hideSecrets } from '../model/untrusted-text.js';
import type { Metadata } from '../oidc/parse-metadata.js';
import type { ExhibitorSettings } from '../options/exhibitor-settings.js';
import type { OAuthFailure } from '../problems/token-endpoint-problems.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import { authenticated, hiddenForms, type OAuthClient } from '../tokens/client-authentication.js';
import { parseOAuthError } from '../tokens/token-reply.js';
import { HostDispatchers } from '../transport/wire/host-dispatchers.js';
import { errorCode } from '../transport/wire/stale-connection.js';
import { notTested, unknown, wrong, type DiagnosisHints, type Finding, type Unproved } from './finding.js';

const MOST_REQUESTS = 12;

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
  /** Why there is no reply. */
  failure?: string;
  /** Of the token endpoint. */
  error?: OAuthFailure | undefined;
}

/** The requests of one diagnosis, one at a time, and what the steps found so far. */
export class Examination {
  readonly findings: Finding[] = [];
  /** Origins without a reply, with the reason. */
  readonly unreached = new Map<string, string>();
  /** The access token of the REST API, and the reply of the list that it gave. */
  token = '';
  page: Reply | undefined;
  /** Addresses in the metadata of the provider. */
  published: Metadata['urls'] | undefined;
  /** Whether the authorize endpoint knows `login.clientId`, where it said so. */
  knowsClient: boolean | undefined;
  loginClient: Promise<string> | undefined;

  readonly #first = new Map<string, Reply>();
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
    readonly rules: Pick<ExhibitorSettings, 'allowedOrigins'>,
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
   * @throws {Unproved} where there was no connection before, and after a dozen requests
   * @throws {ExhibitorError} `aborted`
   */
  async send(url: string, headers: Record<string, string> = {}, body?: string): Promise<Reply> {
    const { origin } = new URL(url);
    const known = this.unreached.get(origin);
    if (known !== undefined) {
      throw notTested(`there is no connection to ${origin}: ${known}`);
    }
    this.#sent += 1;
    if (this.#sent > MOST_REQUESTS) {
      throw notTested('a dozen requests were sent');
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
  shown(value: string, longest = 200): string {
    return hideSecrets(value, [...this.#secrets, this.token], longest);
  }

  /** The URL of an endpoint as a login finds it. */
  endpoint(name: 'authorize' | 'token'): string {
    const { tenant } = this;
    const option = tenant.endpointOption(name);
    this.requireUnrefuted(option);
    const set = tenant.settings.endpoints?.[name] ?? tenant.defaultEndpoint(name);
    return option === 'login.discovery' ? this.discovered(name) : set;
  }

  /** A URL that only the metadata of the provider names. */
  discovered(name: 'authorize' | 'token' | 'keys'): string {
    if (this.published === undefined) {
      throw notTested("the step 'metadata' failed");
    }
    const url = this.published[name];
    if (typeof url !== 'string') {
      throw wrong('login.discovery', `the metadata has no address of its ${name} that the options accept`);
    }
    return url;
  }

  /** @throws {Unproved} where a step found that this option is wrong */
  requireUnrefuted(option: string): void {
    const found = this.findings.find((finding) => finding.status === 'wrong' && finding.option === option);
    if (found !== undefined) {
      throw notTested(`the step '${found.step}' failed for ${option}`);
    }
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

/** An address does not give the reply that it should. */
export function unusable({ status, failure }: Reply, option: string, what: string): Unproved {
  return status === 429 || status >= 500
    ? unknown(`${what} answers ${status}: try again later`)
    : wrong(option, `the reply of ${what} cannot be used: ${failure ?? `status ${status}`}`);
}
