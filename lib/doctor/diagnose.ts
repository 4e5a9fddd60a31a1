import { NestFactory } from '@nestjs/core';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
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
import { notTested, Unproved, type DiagnosisHints, type Finding } from './finding.js';
import { authorize, cookies, loginClient, metadata, publishedKey } from './login-steps.js';
import { access, apiClient, clock, connection, list, lookup, valid } from './service-steps.js';

/** Returns what it proved, or throws `Unproved`. */
type Step = (diagnosis: Diagnosis) => string | Promise<string>;

const SERVICE: Record<string, Step> = { connection, clock, token: apiClient, tenant: access, list, lookup };
const LOGIN: Record<string, Step> = { metadata, keys: publishedKey, authorize, login: loginClient, cookies };
const STEPS = Object.entries({ options: valid, ...SERVICE, ...LOGIN });

/**
 * Finds out which values of a tenant are wrong, by at most a dozen requests to the service and the provider, one at a time, each
 * within `http.deadline`. Nobody is logged in. There is one finding for each step. The services of the module run in an
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
    yield* STEPS.map(([step], at) => findingOf(step, at === 0 ? error : rest));
    return;
  }
  try {
    for (const [step, prove] of STEPS) {
      const finding = await examine(step, prove, diagnosis);
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
  const session = isBearer ? 'bearer' : 'cookie';
  // The secret of a host's cookies is no value of onboarding.
  const secrets = ['of no cookie: the doctor seals nothing'];
  const checked = checkOptions({ tenant: own, http, allowedOrigins, session, secrets });
  checkLookupFilter(hints);
  const sent: string[] = [];
  for (const settings of 'find' in checked.tenants ? [] : checked.tenants.values()) {
    const { attemptTimeout } = { ...checked.settings.http, ...settings.http };
    settings.http = { ...settings.http, attempts: 1 };
    for (const client of [settings, settings.login ?? { clientSecret: undefined }]) {
      client.clientSecret = noted(client.clientSecret, sent, attemptTimeout);
    }
  }
  const reported: (Problem | undefined)[] = [];
  const report = (_tenant: unknown, problem?: Problem): void => void reported.push(problem);
  const providers = [
    { provide: CHECKED_OPTIONS, useValue: checked },
    { provide: ProblemLog, useValue: { report } },
  ];
  const module = { module: ExhibitorModule, providers };
  const context = await NestFactory.createApplicationContext(module, { abortOnError: false });
  const tenant = await context.get(TenantRegistry).get(SINGLE_TENANT);
  return new Diagnosis(tenant, hints, checked, context, reported, sent);
}

/** The same secret. It is added to `sent` when it is known. A function that does not answer in time fails, so that it is named. */
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

async function examine(step: string, prove: Step, diagnosis: Diagnosis): Promise<Finding> {
  try {
    return { step, status: 'ok', message: await prove(diagnosis) };
  } catch (error) {
    return findingOf(step, error, diagnosis);
  }
}

function findingOf(step: string, error: unknown, known?: Diagnosis): Finding {
  const { message, options, advice } = unprovedOf(error);
  const suspects = options.filter((option) => known?.proved.has(option) !== true);
  // An option that is wrong by itself explains what later steps find.
  const cause = known?.findings.find(
    ({ status, option = '' }) => status === 'wrong' && suspects.includes(option),
  );
  if (cause !== undefined) {
    return findingOf(step, notTested(`the step '${cause.step}' failed for ${cause.option}`));
  }
  return suspects.length === 0
    ? { step, status: 'unknown', message }
    : { step, status: 'wrong', option: suspects.join(', '), message, advice: advice ?? adviceOn(suspects) };
}

/** Errors that say nothing of the options are thrown again. */
function unprovedOf(error: unknown): Unproved {
  if (error instanceof Unproved) {
    return error;
  }
  if (isExhibitorError(error) && error.code === 'configuration_invalid') {
    const options = error.problems.map(({ path }) => path.replace('tenant.', ''));
    const messages = error.problems.map(({ expected }, at) => `${options[at]} ${expected}`);
    return options[0] === 'login'
      ? notTested('the options have no login in the browser')
      : new Unproved(messages.join('; '), options);
  }
  if (isExhibitorError(error) && error.code === 'invalid_argument') {
    // The message begins with the name of the argument.
    return new Unproved(error.message, [error.message.slice(0, error.message.indexOf(' '))]);
  }
  throw error;
}

function adviceOn(options: readonly string[]): string {
  const whom = options.map((option) =>
    option.startsWith('login.') || option.startsWith('endpoints.')
      ? 'the administrator of the identity provider'
      : "the service's onboarding",
  );
  return `Is it as onboarding says? Ask ${[...new Set(whom)].join(' and ')}.`;
}
