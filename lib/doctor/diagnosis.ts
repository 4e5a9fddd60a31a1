import type { IncomingHttpHeaders } from 'node:http';
import type { INestApplicationContext } from '@nestjs/common';
import { Agent, request } from 'undici';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { isRecord } from '../model/json-values.js';
import { hideSecrets } from '../model/untrusted-text.js';
import { metadataUrl, OpenIdProvider } from '../oidc/openid-provider.service.js';
import type { CheckedOptions } from '../options/check-options.js';
import { shownUrl } from '../problems/address-problems.js';
import { problemText } from '../problems/problem-log.service.js';
import type { Problem } from '../problems/problem.interface.js';
import { loginOf, type Tenant } from '../tenants/tenant.js';
import { Deadlines, type Deadline } from '../time/deadline.js';
import { Transport } from '../transport/transport.service.js';
import { errorCode } from '../transport/wire/network-errors.js';
import { notTested, Unproved, type DiagnosisHints, type Finding } from './finding.js';

type Json = Readonly<Record<string, unknown>>;

/** The reply to a probe. */
export interface Probed {
  /** 0 where there is none. */
  status: number;
  headers: IncomingHttpHeaders;
  /** Empty where the body was cut short or too large. */
  text: string;
  /** In ms since 1970. */
  receivedAt: number;
  /** Why there is no reply. */
  failure?: string;
}

/** The services of the module for one tenant, and what the steps found so far. */
export class Diagnosis {
  readonly findings: Finding[] = [];
  /** Address of the keys that the provider publishes; empty where it names none. */
  publishedKeys = '';
  /** The access token of the REST API. */
  accessToken = '';
  /** Of that token, where it is a JWT. */
  claims: Json | undefined;
  /** Options that cannot be wrong. */
  readonly proved = new Set<string>();

  readonly #probes = new Map<string, Promise<Probed>>();

  constructor(
    readonly tenant: Tenant,
    readonly hints: DiagnosisHints,
    readonly checked: CheckedOptions,
    /** Of the module, for its services. */
    readonly context: Pick<INestApplicationContext, 'get' | 'close'>,
    /** What the service that is asked reports to the operator. */
    private readonly reported: (Problem | undefined)[],
    /** Secrets and tokens that were sent. */
    readonly secrets: string[],
  ) {}

  /**
   * What a service of the module answers within `http.deadline`. Its failure is read together with what it reported.
   *
   * @param option sets `url`, which the service requests
   */
  async ask<T>(option: string, url: string, work: (deadline: Deadline) => T | Promise<T>): Promise<T> {
    if (option === 'login.discovery') {
      this.needs('metadata');
    }
    this.reported.length = 0;
    const call = async (deadline: Deadline): Promise<T> => work(deadline);
    try {
      return await this.context.get(Deadlines).within(this.tenant.http.deadline, call, this.hints.signal);
    } catch (error) {
      throw failureOf(error, option, url, this.reported.find(Boolean));
    }
  }

  /** The URL of an endpoint, as a login finds it. */
  endpoint(name: 'authorize' | 'token'): Promise<string> {
    const { tenant } = this;
    return this.ask(tenant.endpointOption(name), metadataUrl(loginOf(tenant).issuer), (deadline) =>
      this.context.get(OpenIdProvider).urlOf(tenant, name, deadline),
    );
  }

  /** The reply to a GET whose status, headers or redirect the services do not show. Of equal ones only the first is sent. */
  probe(url: string, headers: Readonly<Record<string, string>> = {}): Promise<Probed> {
    const key = JSON.stringify([url, headers]);
    const reply = this.#probes.get(key) ?? this.#send(url, headers);
    this.#probes.set(key, reply);
    return reply;
  }

  /** Text from outside as a finding shows it. A provider may repeat what an earlier request contained. */
  shown(value: unknown): string {
    return hideSecrets(String(value), this.secrets);
  }

  /** @throws {Unproved} unless this step proved what it tests */
  needs(step: string): void {
    if (!this.findings.some((finding) => finding.step === step && finding.status === 'ok')) {
      throw notTested(`the step '${step}' failed`);
    }
  }

  async #send(url: string, own: Readonly<Record<string, string>>): Promise<Probed> {
    const { attemptTimeout, maxResponseBytes } = this.tenant.http;
    // Without keep-alive, no connection is left open.
    const dispatcher =
      this.context.get(Transport).dispatcherOf(this.tenant) ??
      new Agent({ pipelining: 0, maxResponseSize: maxResponseBytes });
    const limit = AbortSignal.timeout(attemptTimeout);
    const signal = AbortSignal.any([limit, this.hints.signal ?? limit]);
    const headers = { accept: 'application/json', 'user-agent': 'nestjs-exhibitor', ...own };
    const probed: Probed = { status: 0, headers: {}, text: '', receivedAt: 0 };
    try {
      const reply = await request(url, { headers, dispatcher, signal });
      Object.assign(probed, { status: reply.statusCode, headers: reply.headers, receivedAt: Date.now() });
      probed.text = await reply.body.text();
    } catch (error) {
      if (this.hints.signal?.aborted === true) {
        throw new ExhibitorError('aborted', 'the caller aborted the diagnosis');
      }
      probed.failure = limit.aborted ? 'no answer in time' : errorCode(error);
    }
    return probed;
  }
}

/** What the failure of a service says of the options. Errors that say nothing of them are answered as they are. */
function failureOf(error: unknown, option: string, url: string, problem: Problem | undefined): unknown {
  if (!isExhibitorError(error) || error.code === 'configuration_invalid' || error.code === 'aborted') {
    return error;
  }
  const { code, status = 0 } = error;
  if (status === 404 || Object(error)['oauthError'] === `http_${status}`) {
    return unusable({ status }, option, url);
  }
  const address = shownUrl(url);
  const text = problem === undefined ? error.message : problemText(problem);
  const message = text.includes(address) ? text : `${address}: ${text}`;
  const isUseless = code === 'malformed_response' || code === 'login_failed';
  const options = problem?.options ?? (isUseless ? [option] : []);
  return options.length > 0
    ? // An address that refuses a client is that of a token endpoint.
      new Unproved(message, options.length > 1 ? options.filter((one) => one !== option) : options)
    : new Unproved(`${message}: try again later`);
}

/** A reply is not the one that an address should give. */
export function unusable(reply: Pick<Probed, 'status' | 'failure'>, option: string, url: string): Unproved {
  const { status, failure } = reply;
  const message = `${shownUrl(url)}${failure === undefined ? ` answers ${status}` : `: ${failure}`}`;
  const isTemporary = status === 429 || status >= 500;
  return isTemporary ? new Unproved(`${message}: try again later`) : new Unproved(message, [option]);
}

/** The JSON object of a text; `undefined` where it is none. */
export function jsonIn(text: string): Json | undefined {
  try {
    const json: unknown = JSON.parse(text);
    return isRecord(json) ? json : undefined;
  } catch {
    return undefined;
  }
}
