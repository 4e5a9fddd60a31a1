import { NestFactory } from '@nestjs/core';
import { ExhibitorModule } from '../exhibitor.module.js';
import { checkLookupFilter } from '../exhibitors/call-options.schema.js';
import { CHECKED_OPTIONS, checkOptions, SINGLE_TENANT } from '../options/check-options.js';
import type { SecretSource } from '../options/client-auth-option.js';
import type { TenantOptions } from '../options/tenant-options.interface.js';
import { ProblemLog } from '../problems/problem-log.service.js';
import type { Problem } from '../problems/problem.interface.js';
import { TenantRegistry } from '../tenants/tenant-registry.service.js';
import { withTimeout } from '../time/deadline.js';
import { Diagnosis } from './diagnosis.js';
import {
  notTested,
  unknown,
  verdictOf,
  wrong,
  type Asked,
  type DiagnosisHints,
  type Finding,
} from './finding.js';
import { authorize, cookies, loginClient, metadata, publishedKey } from './login-steps.js';
import { access, apiClient, clock, connection, list, lookup, valid } from './service-steps.js';

/** Returns what it proved, or throws `Unproved`. */
type Step = (diagnosis: Diagnosis) => string | Promise<string>;

const SERVICE: Record<string, Step> = { connection, clock, token: apiClient, tenant: access, list, lookup };
const LOGIN: Record<string, Step> = { metadata, keys: publishedKey, authorize, login: loginClient, cookies };
const STEPS = Object.entries({ options: valid, ...SERVICE, ...LOGIN });

/**
 * Finds out which values of a tenant are wrong, by at most a dozen requests to the service and the provider, one at a time, each
 * within twice `http.attemptTimeout`. Nobody is logged in. There is one finding for each step. The services of the module run in an
 * application context of their own, which Nest announces in the log.
 *
 * @throws {ExhibitorError} `aborted` where `hints.signal` aborts
 * @example
 * for await (const { step, status, option, message } of diagnose(tenant, { eventId: 'world-2026' })) {
 *   if (status === 'wrong') console.error(`${step}: ${option}: ${message}`);
 * }
 */
export function diagnose(options: TenantOptions, hints: DiagnosisHints = {}): AsyncIterable<Finding> {
  return diagnoseModule({ tenant: options }, hints);
}

/** {@link diagnose} for the option `tenant` of a module, whose other options matter to it. */
export async function* diagnoseModule(
  given: Readonly<Record<string, unknown>>,
  hints: DiagnosisHints,
): AsyncIterable<Finding> {
  let diagnosis: Diagnosis;
  try {
    diagnosis = await begin(given, hints);
  } catch (error) {
    const rest = notTested("the step 'options' failed");
    yield* STEPS.map(([step], at) => ({ step, ...(at === 0 ? verdictOf(error) : rest).finding }));
    return;
  }
  try {
    for (const [step, prove] of STEPS) {
      const finding = await findingOf(step, prove, diagnosis);
      diagnosis.findings.push(finding);
      yield finding;
    }
  } finally {
    await diagnosis.context.close();
  }
}

/** @throws {ExhibitorError} `configuration_invalid` as the module does, `invalid_argument` for a hint */
async function begin(given: Readonly<Record<string, unknown>>, hints: DiagnosisHints): Promise<Diagnosis> {
  const { tenant: own, http, allowedOrigins } = given;
  const { authorizedParties, redirectUri }: Record<string, unknown> = Object(Object(own).login);
  const isBearer = authorizedParties !== undefined && redirectUri === undefined;
  const { session = isBearer ? 'bearer' : 'cookie' } = given;
  // The secret of a host's cookies is no value of onboarding.
  const secrets = ['of no cookie: the doctor seals nothing'];
  const checked = checkOptions({ tenant: own, http, allowedOrigins, session, secrets });
  checkLookupFilter(hints);
  const sent: string[] = [];
  for (const settings of 'find' in checked.tenants ? [] : checked.tenants.values()) {
    const { attemptTimeout } = { ...checked.settings.http, ...settings.http };
    // A secret function that does not answer fails before the call does, so that it is named.
    settings.http = { ...settings.http, attempts: 1, deadline: 2 * attemptTimeout };
    for (const client of [settings, settings.login ?? { clientSecret: undefined }]) {
      client.clientSecret = noted(client.clientSecret, sent, attemptTimeout);
    }
  }
  const asked: Asked = {};
  const report = (_tenant: unknown, problem: Problem | undefined): void => {
    asked.problem ??= problem;
  };
  const providers = [
    { provide: CHECKED_OPTIONS, useValue: checked },
    { provide: ProblemLog, useValue: { report } },
  ];
  const module = { module: ExhibitorModule, providers };
  const context = await NestFactory.createApplicationContext(module, { abortOnError: false });
  const tenant = await context.get(TenantRegistry).get(SINGLE_TENANT);
  return new Diagnosis(tenant, hints, checked, context, asked, sent);
}

/** The same secret. It is added to `sent` when it is known. */
function noted(source: SecretSource | undefined, sent: string[], timeout: number): SecretSource | undefined {
  if (typeof source !== 'function') {
    sent.push(source ?? '');
    return source;
  }
  return async () => {
    const secret = await withTimeout(timeout, source);
    sent.push(String(secret));
    return secret;
  };
}

async function findingOf(step: string, prove: Step, diagnosis: Diagnosis): Promise<Finding> {
  const { findings, asked, proved } = diagnosis;
  Object.assign(asked, { option: undefined, url: undefined, problem: undefined });
  try {
    return { step, status: 'ok', message: await prove(diagnosis) };
  } catch (error) {
    const { finding } = verdictOf(error, asked);
    const possible = finding.option?.split(', ').filter((option) => !proved.has(option)) ?? [];
    // An address that refuses a client is that of a token endpoint.
    const options = possible.length > 1 ? possible.filter((option) => option !== asked.option) : possible;
    // An option that is wrong by itself explains what later steps find.
    const known = findings.find(({ status, option = '' }) => status === 'wrong' && options.includes(option));
    if (known !== undefined) {
      return { step, ...notTested(`the step '${known.step}' failed for ${known.option}`).finding };
    }
    const { message, advice } = finding;
    return { step, ...(options.length > 0 ? wrong(options, message, advice) : unknown(message)).finding };
  }
}
