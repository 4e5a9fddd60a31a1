import type { IncomingHttpHeaders } from 'node:http';
import { Agent, request, type Dispatcher } from 'undici';
import * as v from 'valibot';
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
import { errorCode } from '../transport/wire/network-errors.js';
import { notTested, unknown, wrong, type DiagnosisHints, type Finding, type Unproved } from './finding.js';

const MOST_REQUESTS = 12;

const jsonOrNothing = v.fallback(v.pipe(v.string(), v.parseJson()), undefined);

export interface Reply {
  /** 0 where there is none. */
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
  /** `undefined` where the text is no JSON. */
  json?: unknown;
  /** In ms since 1970; 0 where no response began. */
  receivedAt: number;
  /** Why there is no reply. */
  failure?: string;
}

export type GrantReply = Reply & { error: OAuthFailure | undefined };

/** The requests of one diagnosis, one at a time, and what its steps found so far. */
export class Examination {
  readonly findings: Finding[] = [];
  /** Origins that began no reply, or did not end one in time, with the reason. Other failures say nothing of a next request. */
  readonly unreached = new Map<string, string>();
  /** The access token of the REST API. */
  token = '';
  /** Addresses in the metadata of the provider. */
  published: Metadata['urls'] | undefined;
  /** The authorize endpoint knows `login.clientId`. */
  knowsClient = false;

  readonly #replies = new Map<string, Reply>();
  readonly #clock = new Clock();
  readonly #dispatcher: Dispatcher;
  /** What a client was authenticated with. */
  readonly #secrets: string[] = [];

  /** @throws {ConfigurationError} where `http.dispatcher` fails */
  constructor(
    readonly tenant: Tenant,
    readonly hints: DiagnosisHints,
    readonly rules: Pick<ExhibitorSettings, 'allowedOrigins'>,
  ) {
    // Without keep-alive: a connection that the server is closing would fail a request, and none is left open.
    const agent = { pipelining: 0, maxResponseSize: tenant.http.maxResponseBytes };
    this.#dispatcher = new HostDispatchers().of(tenant) ?? new Agent(agent);
  }

  /**
   * The reply to a GET, or to a POST of `body`. Of equal requests only the first is sent.
   *
   * @throws {Unproved} where the origin is unreached, and after a dozen requests
   * @throws {ExhibitorError} `aborted`
   */
  async ask(url: string, headers: Record<string, string> = {}, body?: string): Promise<Reply> {
    const key = JSON.stringify([url, headers, body]);
    const known = this.#replies.get(key);
    if (known !== undefined) {
      return known;
    }
    const { origin } = new URL(url);
    if (this.unreached.has(origin)) {
      throw notTested(`an earlier request to ${origin} failed: ${this.unreached.get(origin)}`);
    }
    if (this.#replies.size >= MOST_REQUESTS) {
      throw notTested('a dozen requests were sent');
    }
    const reply = await this.#send(url, headers, body);
    this.#replies.set(key, reply);
    return reply;
  }

  async grant(client: OAuthClient, form: Readonly<Record<string, string>>): Promise<GrantReply> {
    const { headers, body } = authenticated(client, form, this.#clock);
    const type = { 'content-type': 'application/x-www-form-urlencoded' };
    const text = typeof body === 'string' ? body : await body();
    const reply = await this.ask(client.tokenUrl, { ...headers, ...type }, text);
    this.#secrets.push(...hiddenForms(client, { headers, body }));
    return { ...reply, error: parseOAuthError(reply.json, [...Object.values(form), ...this.#secrets]) };
  }

  /** Text of a reply as a finding shows it. A provider may repeat what an earlier request contained. */
  shown(value: string, longest = 200): string {
    return hideSecrets(value, [...this.#secrets, this.token], longest);
  }

  /** The URL of an endpoint as a login finds it; with discovery also that of the keys. */
  urlOf(name: 'authorize' | 'token' | 'keys'): string {
    const { tenant, published } = this;
    const isDiscovered = name === 'keys' || tenant.endpointOption(name) === 'login.discovery';
    if (!isDiscovered) {
      return tenant.settings.endpoints?.[name] ?? tenant.defaultEndpoint(name);
    }
    if (published === undefined) {
      throw notTested("the step 'metadata' failed");
    }
    const url = published[name];
    if (typeof url !== 'string') {
      throw wrong('login.discovery', `the metadata has no address of its ${name} that the options accept`);
    }
    return url;
  }

  /** @throws {Unproved} unless this step proved what it tests */
  needs(step: string): void {
    if (!this.findings.some((finding) => finding.step === step && finding.status === 'ok')) {
      throw notTested(`the step '${step}' failed`);
    }
  }

  async #send(url: string, headers: Record<string, string>, body: string | undefined): Promise<Reply> {
    const { signal } = this.hints;
    const limit = AbortSignal.timeout(this.tenant.http.attemptTimeout);
    let receivedAt = 0;
    try {
      const reply = await request(url, {
        method: body === undefined ? 'GET' : 'POST',
        headers: { accept: 'application/json', 'user-agent': 'nestjs-exhibitor', ...headers },
        body,
        dispatcher: this.#dispatcher,
        signal: signal === undefined ? limit : AbortSignal.any([limit, signal]),
      });
      receivedAt = this.#clock.epochMs();
      const text = await reply.body.text();
      const json = v.parse(jsonOrNothing, text);
      return { status: reply.statusCode, headers: reply.headers, text, json, receivedAt };
    } catch (error) {
      if (signal?.aborted === true) {
        throw new ExhibitorError('aborted', 'the caller aborted the diagnosis');
      }
      const failure = limit.aborted ? 'no answer in time' : errorCode(error);
      if (receivedAt === 0 || limit.aborted) {
        this.unreached.set(new URL(url).origin, failure);
      }
      return { status: 0, headers: {}, text: '', receivedAt, failure };
    }
  }
}

/** True where an address has no endpoint, or none that answers now. */
export function isAbsent({ status }: Reply): boolean {
  return [0, 404, 405, 429].includes(status) || status >= 500;
}

/** An address does not give the reply that it should. */
export function unusable({ status, failure }: Reply, option: string, what: string): Unproved {
  return status === 429 || status >= 500
    ? unknown(`${what} answers ${status}: try again later`)
    : wrong(option, `the reply of ${what} cannot be used: ${failure ?? `status ${status}`}`);
}
