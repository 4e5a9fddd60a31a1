import type { IncomingHttpHeaders } from 'node:http';
import type { INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { AxiosInstance } from 'axios';
import { Agent, request } from 'undici';
import { ExhibitorModule } from '../../exhibitor.module.js';
import { checkLookupFilter } from '../../exhibitors/call-runner.service.js';
import { parseUrl } from '../../model/urls.js';
import { hideSecrets } from '../../model/untrusted-text.js';
import { PUBLISHED_TYPES } from '../../oidc/openid-provider.service.js';
import { CHECKED_OPTIONS, checkOptions, SINGLE_TENANT } from '../../config/check-options.js';
import type { SecretSource } from '../../config/client-auth-option.js';
import { shownUrl } from '../../config/problems/partner-problems.js';
import { ProblemLog } from '../../config/problems/problem-log.service.js';
import type { Problem } from '../../config/problems/problem.interface.js';
import { TenantRegistry } from '../../config/tenant-registry.service.js';
import type { Tenant } from '../../config/tenant.js';
import { Clock, LONGEST_TIMER, withTimeout } from '../../call/clock.js';
import { Transport } from '../../http/transport.service.js';
import { errorCode } from '../../http/wire/network-errors.js';
import { parseRecord } from '../../http/wire/reply-body.js';
import type { DiagnosisHints, Finding } from './finding.js';

export type Json = Readonly<Record<string, unknown>>;

/** The reply to a probe. Where there is none, or no JSON object, the members are 0 or empty. */
export interface Probed {
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
  json: Json;
  /** In ms since 1970. */
  receivedAt: number;
  /** The URL without its query, and what it answers or why there is no reply. */
  message: string;
}

/** The services of the module for one tenant, and what the steps found so far. */
export class Diagnosis {
  readonly findings: Finding[] = [];
  /** Options that are right. So is a missing `login`: a tenant may have none. */
  readonly proved = new Set(['login']);
  /** Of the REST API; empty where there is none. */
  accessToken = '';
  /** Of a token that another step than `token` asked for, and what was seen then. */
  refusal: { readonly error: unknown; readonly seen: Diagnosis['seen'] } | undefined;

  readonly #probes: Record<string, Promise<Probed>> = {};

  constructor(
    readonly tenant: Tenant,
    readonly hints: DiagnosisHints,
    readonly options: ReturnType<typeof checkOptions>,
    readonly context: INestApplicationContext,
    /** Of this step: the URL of the last request, as it is shown, and the first problem that a service reported. */
    readonly seen: { address: string; problem: Problem | undefined },
    /** Of both clients, where they are known. */
    private readonly secrets: readonly string[],
  ) {}

  /** The reply to a GET whose status, headers or page the services do not show. Equal ones are sent once. */
  probe(url: string, headers: Readonly<Record<string, string>> = {}): Promise<Probed> {
    // An issuer need not be a URL.
    this.seen.address = parseUrl(url) === undefined ? url : shownUrl(url);
    return (this.#probes[JSON.stringify([url, headers])] ??= this.#send(url, headers));
  }

  /** Text from outside as a finding shows it. A provider may repeat the secrets of earlier requests. */
  shown(text: string): string {
    return hideSecrets(text, [...this.secrets, this.accessToken], 1_000);
  }

  /** @throws {Unproved} unless this step proved what it tests */
  needs(step: string): void {
    const isProved = this.findings.some((finding) => finding.step === step && finding.status === 'ok');
    prove(isProved, `not tested: the step '${step}' failed`);
  }

  async #send(url: string, own: Readonly<Record<string, string>>): Promise<Probed> {
    const { tenant, context, hints, seen } = this;
    const { attemptTimeout, maxResponseBytes: maxResponseSize } = tenant.http;
    const { address } = seen;
    const limit = AbortSignal.timeout(attemptTimeout);
    // Without keep-alive, no connection is left open. undici looks at the signal only once it is connected.
    const limits = { pipelining: 0, maxResponseSize, connect: { timeout: attemptTimeout } };
    const dispatcher = context.get(Transport).dispatcherOf(tenant) ?? new Agent(limits);
    const signal = AbortSignal.any([limit, hints.signal ?? limit]);
    const sent = { accept: PUBLISHED_TYPES, 'user-agent': 'nestjs-exhibitor', ...own };
    try {
      const { statusCode: status, headers, body } = await request(url, { headers: sent, dispatcher, signal });
      // Before the body, which may be slow: the header `Date` is compared with it.
      const receivedAt = Date.now();
      const text = await body.text().catch(() => '');
      const json = parseRecord(Buffer.from(text));
      return { status, headers, text, json, receivedAt, message: `${address} answers ${status}` };
    } catch (error) {
      const message = `${address}: ${limit.aborted ? 'no answer in time' : errorCode(error)}`;
      return { status: 0, headers: {}, text: '', json: {}, receivedAt: 0, message };
    }
  }
}

/** Starts the services of the module for the option `tenant`. It throws what the module throws, also for a hint. */
export async function begin(given: Json, hints: DiagnosisHints): Promise<Diagnosis> {
  const { authorizedParties, redirectUri }: Json = Object(Object(given['tenant']).login);
  const session = authorizedParties !== undefined && redirectUri === undefined ? 'bearer' : 'cookie';
  const unused = ['of no cookie: the doctor seals nothing'];
  const seen: Diagnosis['seen'] = { address: '', problem: undefined };
  const axios = ({ interceptors }: AxiosInstance): unknown =>
    interceptors.request.use((sent) => {
      seen.address = shownUrl(String(sent.url));
      return sent;
    });
  const report = (_tenant: unknown, problem?: Problem): void => {
    // A partner that fails is told by the error of the step.
    if (problem?.isWarning !== true || problem.options.length > 0) {
      seen.problem ??= problem;
    }
  };
  // A finding says it: of the log of the module, only `info` still writes lines.
  const silent = { report, warn: () => false, error: () => {} };
  // All, since a host does not start where one of them is wrong.
  const checked = checkOptions({ session, secrets: unused, ...given, axios });
  // What is kept or refused by code of the host says nothing of the values.
  const settings = { ...checked.settings, store: undefined, exhibitorSchema: undefined };
  const options = { ...checked, settings };
  checkLookupFilter(hints);
  const providers = [
    { provide: CHECKED_OPTIONS, useValue: options },
    { provide: ProblemLog, useValue: Object.assign(new ProblemLog(options, new Clock()), silent) },
  ];
  const module = { module: ExhibitorModule, providers };
  const context = await NestFactory.createApplicationContext(module, { abortOnError: false });
  const tenant = await context.get(TenantRegistry).get(SINGLE_TENANT);
  tenant.http.attempts = 1;
  const clients = [tenant.settings, tenant.login ?? {}];
  const known = await Promise.all(
    clients.map((client) => readSecretOnce(client, tenant.http.attemptTimeout)),
  );
  return new Diagnosis(tenant, hints, options, context, seen, known);
}

/** Calls a function once, and puts its answer in its place. One that does not answer in time fails, so that its option is named. */
async function readSecretOnce(
  client: { clientSecret?: SecretSource | undefined },
  ms: number,
): Promise<string> {
  const { clientSecret: source = '' } = client;
  if (typeof source === 'string') {
    return source;
  }
  const secret = withTimeout(ms, source);
  client.clientSecret = () => secret;
  // The limit itself does not keep a script from its exit.
  const keptAlive = setTimeout(() => undefined, LONGEST_TIMER);
  return secret.then(String, () => '').finally(() => clearTimeout(keptAlive));
}

/** Thrown by a step that did not prove what it tests, with the options that may be wrong: none where the replies prove nothing. */
export class Unproved extends Error {
  constructor(
    message: string,
    readonly options: readonly string[] = [],
  ) {
    super(message);
  }
}

/** @throws {Unproved} with what was found, unless this holds. A 429 and a 5xx say nothing of the options. */
export function prove(holds: boolean, found: string | Probed, ...options: string[]): asserts holds {
  if (!holds) {
    const { message, status } = typeof found === 'string' ? { message: found, status: 0 } : found;
    throw new Unproved(message, status === 429 || status >= 500 ? [] : options);
  }
}
