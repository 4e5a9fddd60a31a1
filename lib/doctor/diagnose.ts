import { NestFactory } from '@nestjs/core';
import { isExhibitorError, type AnyExhibitorError } from '../errors/is-exhibitor-error.js';
import { ExhibitorModule } from '../exhibitor.module.js';
import { checkLookupFilter } from '../exhibitors/call-options.schema.js';
import { CHECKED_OPTIONS, checkOptions, SINGLE_TENANT } from '../options/check-options.js';
import type { SecretSource } from '../options/client-auth-option.js';
import type { TenantOptions } from '../options/tenant-options.interface.js';
import type { TenantSettings } from '../options/tenant-settings.js';
import { ProblemLog } from '../problems/problem-log.service.js';
import { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import { authorize, cookies } from './browser-steps.js';
import { loginClient, token } from './client-steps.js';
import { Diagnosis, ReportedProblems } from './diagnosis.js';
import { allWrong, notTested, Unproved, wrong, type DiagnosisHints, type Finding } from './finding.js';
import { keys, metadata } from './provider-steps.js';
import { access, clock, connection, list, lookup } from './service-steps.js';

/** Returns what it proved, or throws {@link Unproved}. */
type Step = (diagnosis: Diagnosis) => string | Promise<string>;

const SERVICE: Readonly<Record<string, Step>> = { connection, clock, token, tenant: access, list, lookup };
const LOGIN: Readonly<Record<string, Step>> = { metadata, keys, authorize, login: loginClient, cookies };
const STEPS = Object.entries({ ...SERVICE, ...LOGIN });

/**
 * Finds out which values of a tenant are wrong, by at most a dozen requests to the service and the provider, one at a time, each
 * within `http.attemptTimeout`. Nobody is logged in. There is one finding for each step. The services of the module run in an
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
  options: Readonly<Record<string, unknown>>,
  hints: DiagnosisHints,
): AsyncIterable<Finding> {
  let diagnosis: Diagnosis;
  try {
    diagnosis = await begin(options, hints);
  } catch (error) {
    yield unproved('options', error);
    yield* STEPS.map(([step]) => unproved(step, notTested("the step 'options' failed")));
    return;
  }
  try {
    yield { step: 'options', status: 'ok', message: 'the options are valid' };
    for (const [step, prove] of STEPS) {
      const finding = await run(step, prove, diagnosis);
      diagnosis.findings.push(finding);
      yield finding;
    }
  } finally {
    await diagnosis.context.close();
  }
}

/** @throws {ExhibitorError} `configuration_invalid` as the module does, `invalid_argument` for a hint */
async function begin(options: Readonly<Record<string, unknown>>, hints: DiagnosisHints): Promise<Diagnosis> {
  const { tenant, http, allowedOrigins } = options;
  const { login }: { login?: { authorizedParties?: unknown; redirectUri?: unknown } } = Object(tenant);
  const isBearer = login?.authorizedParties !== undefined && login.redirectUri === undefined;
  const { session = isBearer ? 'bearer' : 'cookie' } = options;
  // The secret of a host's cookies is no value of onboarding.
  const secrets = ['of no cookie: the doctor seals nothing'];
  const checked = checkOptions({ tenant, http, allowedOrigins, session, secrets });
  checkLookupFilter(hints);
  const [own] = 'find' in checked.tenants ? [] : checked.tenants.values();
  if (own === undefined) {
    throw notTested('there are no options of a tenant');
  }
  const problems = new ReportedProblems(checked, new Clock());
  const providers = [
    { provide: CHECKED_OPTIONS, useValue: checked },
    { provide: ProblemLog, useValue: problems },
  ];
  const module = { module: ExhibitorModule, providers };
  const context = await NestFactory.createApplicationContext(module, { abortOnError: false });
  const sent: string[] = [];
  const once: TenantSettings = {
    ...own,
    http: { ...own.http, attempts: 1 },
    clientSecret: noted(own.clientSecret, sent),
    login: own.login && { ...own.login, clientSecret: noted(own.login.clientSecret, sent) },
  };
  const examined = new Tenant(SINGLE_TENANT, once, checked.settings.http);
  return new Diagnosis(examined, hints, checked.settings.allowedOrigins, context, problems, sent);
}

/** The same secret. It is added to `secrets` when it is known. */
function noted(source: SecretSource | undefined, secrets: string[]): SecretSource | undefined {
  const note = (secret: string): string => {
    // A function of the host may answer anything.
    secrets.push(String(secret));
    return secret;
  };
  if (typeof source === 'function') {
    return async () => note(await source());
  }
  return source === undefined ? undefined : note(source);
}

async function run(step: string, prove: Step, diagnosis: Diagnosis): Promise<Finding> {
  try {
    return { step, status: 'ok', message: await prove(diagnosis) };
  } catch (error) {
    const finding = unproved(step, error);
    const suspects = finding.option?.split(', ') ?? [];
    // An option that is wrong by itself explains what later steps find.
    const known = diagnosis.findings.find(
      ({ status, option = '' }) => status === 'wrong' && suspects.includes(option),
    );
    return known === undefined
      ? finding
      : unproved(step, notTested(`the step '${known.step}' failed for ${known.option}`));
  }
}

/** The finding on a step that threw. Errors that say nothing of the options are thrown again. */
function unproved(step: string, error: unknown): Finding {
  const verdict = isExhibitorError(error) ? verdictOf(error) : error;
  if (!(verdict instanceof Unproved)) {
    throw error;
  }
  return { step, ...verdict.finding };
}

function verdictOf(error: AnyExhibitorError): Unproved | undefined {
  switch (error.code) {
    case 'configuration_invalid':
      return error.problems[0]?.path === 'login'
        ? notTested('the options have no login in the browser')
        : allWrong(
            error.problems.map(({ path, expected }) => {
              const option = path.replace('tenant.', '');
              return [option, `${option} ${expected}`];
            }),
          );
    case 'invalid_argument':
      // The message begins with the name of the argument.
      return wrong(error.message.slice(0, error.message.indexOf(' ')), error.message);
    case 'malformed_response':
      return wrong('baseUrl', error.message);
    default:
      return undefined;
  }
}
