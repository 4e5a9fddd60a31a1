import type { IncomingHttpHeaders } from 'node:http';
import type { INestApplicationContext } from '@nestjs/common';
import { Agent, request } from 'undici';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { hideSecrets } from '../model/untrusted-text.js';
import type { Metadata } from '../oidc/parse-metadata.js';
import type { CheckedOptions } from '../options/check-options.js';
import { shownUrl } from '../problems/address-problems.js';
import { ProblemLog } from '../problems/problem-log.service.js';
import type { Problem } from '../problems/problem.interface.js';
import type { Tenant } from '../tenants/tenant.js';
import { Deadlines, type Deadline } from '../time/deadline.js';
import { Transport } from '../transport/transport.service.js';
import { errorCode } from '../transport/wire/network-errors.js';
import { notTested, unknown, wrong, type DiagnosisHints, type Finding, type Unproved } from './finding.js';

/** The reply to a probe. */
export interface Probed {
  /** 0 where there is none. */
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
  /** In ms since 1970; 0 where no response began. */
  receivedAt: number;
  /** Why there is no reply. */
  failure?: string;
}

/** Keeps the first problem that the services report, instead of the log. */
export class ReportedProblems extends ProblemLog {
  first: Problem | undefined;

  override report(_tenant: unknown, problem: Problem | undefined): void {
    this.first ??= problem;
  }
}

/** The services of the module for one tenant, and what the steps found so far. */
export class Diagnosis {
  readonly findings: Finding[] = [];
  /** Addresses in the metadata of the provider. */
  published: Metadata['urls'] | undefined;
  /** The access token of the REST API. */
  accessToken = '';
  /** The service answers 401 to it. */
  isTokenRefused = false;
  /** The authorize endpoint knows `login.clientId`. */
  knowsClient = false;
  /** What the token endpoint answers to the client of a login. */
  loginClient: Promise<string> | undefined;

  readonly #probes = new Map<string, Probed>();

  constructor(
    readonly tenant: Tenant,
    readonly hints: DiagnosisHints,
    readonly allowedOrigins: CheckedOptions['settings']['allowedOrigins'],
    /** Of the module, for its services. */
    readonly context: Pick<INestApplicationContext, 'get' | 'close'>,
    readonly problems: ReportedProblems,
    /** That were sent. */
    private readonly secrets: readonly string[],
  ) {}

  /** What a service of the module answers within `http.attemptTimeout`. */
  async call<T>(work: (deadline: Deadline) => Promise<T>): Promise<T> {
    this.problems.first = undefined;
    return this.context.get(Deadlines).within(this.tenant.http.attemptTimeout, work, this.hints.signal);
  }

  /**
   * The reply to a GET whose status, headers and redirect matter, which the module does not show. Of equal ones only the first is
   * sent.
   *
   * @throws {ExhibitorError} `aborted`
   */
  async probe(url: string, headers: Readonly<Record<string, string>> = {}): Promise<Probed> {
    const key = JSON.stringify([url, headers]);
    const reply = this.#probes.get(key) ?? (await this.#send(url, headers));
    this.#probes.set(key, reply);
    return reply;
  }

  /** The URL of an endpoint as a login finds it; with discovery also that of the keys. */
  urlOf(name: 'authorize' | 'token' | 'keys'): string {
    const { tenant, published } = this;
    if (name !== 'keys' && tenant.endpointOption(name) !== 'login.discovery') {
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

  /** Text from outside as a finding shows it. A provider may repeat what an earlier request contained. */
  shown(value: string, longest = 200): string {
    return hideSecrets(value, [...this.secrets, this.accessToken], longest);
  }

  /** @throws {Unproved} unless this step proved what it tests */
  needs(step: string): void {
    if (!this.findings.some((finding) => finding.step === step && finding.status === 'ok')) {
      throw notTested(`the step '${step}' failed`);
    }
  }

  async #send(url: string, headers: Readonly<Record<string, string>>): Promise<Probed> {
    const { attemptTimeout, maxResponseBytes } = this.tenant.http;
    // Without keep-alive, no connection is left open.
    const dispatcher =
      this.context.get(Transport).dispatcherOf(this.tenant) ??
      new Agent({ pipelining: 0, maxResponseSize: maxResponseBytes });
    const limit = AbortSignal.timeout(attemptTimeout);
    const signal = AbortSignal.any([limit, this.hints.signal ?? limit]);
    let receivedAt = 0;
    try {
      const all = { accept: 'application/json', 'user-agent': 'nestjs-exhibitor', ...headers };
      const reply = await request(url, { headers: all, dispatcher, signal });
      receivedAt = Date.now();
      return { status: reply.statusCode, headers: reply.headers, text: await reply.body.text(), receivedAt };
    } catch (error) {
      if (this.hints.signal?.aborted === true) {
        throw new ExhibitorError('aborted', 'the caller aborted the diagnosis');
      }
      const failure = limit.aborted ? 'no answer in time' : errorCode(error);
      return { status: 0, headers: {}, text: '', receivedAt, failure };
    }
  }
}

/** A reply is not the one that an address should give. */
export function unusable({ status, failure }: Probed, option: string, url: string): Unproved {
  return status === 429 || status >= 500
    ? unknown(`${shownUrl(url)} answers ${status}: try again later`)
    : wrong(option, `${shownUrl(url)} gives no usable answer: ${failure ?? `status ${status}`}`);
}

/** The JSON of a text; `undefined` where it is none. */
export function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
