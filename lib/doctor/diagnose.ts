import * as v from 'valibot';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { checkLookupFilter } from '../exhibitors/call-options.schema.js';
import { SINGLE_TENANT } from '../options/check-options.js';
import { checkTenant } from '../options/check-tenant.js';
import { moduleSchema } from '../options/exhibitor-settings.js';
import { problemsOf } from '../options/option-schemas.js';
import type { TenantOptions } from '../options/tenant-options.interface.js';
import { Tenant } from '../tenants/tenant.js';
import { loginClient, token } from './client-steps.js';
import { clock, names, tls } from './connection-steps.js';
import { Examination } from './examination.js';
import { allWrong, notTested, Unproved, wrong, type DiagnosisHints, type Finding } from './finding.js';
import { authorize, cookies } from './login-steps.js';
import { keys, metadata } from './provider-steps.js';
import { access, list, lookup } from './service-steps.js';

/** Returns what it proved, or throws {@link Unproved}. */
type Step = (examination: Examination) => string | Promise<string>;

const SERVICE: Readonly<Record<string, Step>> = { names, tls, clock, token, tenant: access, list, lookup };
const LOGIN: Readonly<Record<string, Step>> = { metadata, keys, authorize, login: loginClient, cookies };
const STEPS = Object.entries({ ...SERVICE, ...LOGIN });

/**
 * Finds out which values of a tenant are wrong, by at most a dozen requests to the service and the provider, one at a time, each
 * within `http.attemptTimeout`. Nobody is logged in. There is one finding for each step.
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
  let examination: Examination;
  try {
    examination = begin(options, hints);
  } catch (error) {
    yield unproved('options', error);
    yield* STEPS.map(([step]) => unproved(step, notTested("the step 'options' failed")));
    return;
  }
  yield { step: 'options', status: 'ok', message: 'the options are valid' };
  try {
    for (const [step, prove] of STEPS) {
      const finding = await run(step, prove, examination);
      examination.findings.push(finding);
      yield finding;
    }
  } finally {
    await examination.close();
  }
}

async function run(step: string, prove: Step, examination: Examination): Promise<Finding> {
  try {
    return { step, status: 'ok', message: await prove(examination) };
  } catch (error) {
    return unproved(step, error);
  }
}

/** The finding on a step that threw. Other errors are thrown again. */
function unproved(step: string, error: unknown): Finding {
  if (error instanceof Unproved) {
    return { step, ...error.finding };
  }
  // Steps of a login throw it where the tenant has none.
  if (isExhibitorError(error) && error.code === 'configuration_invalid') {
    return unproved(step, notTested('the options have no login in the browser'));
  }
  throw error;
}

function begin(options: Readonly<Record<string, unknown>>, hints: DiagnosisHints): Examination {
  const { tenant, http, allowedOrigins } = options;
  const { authorizedParties, redirectUri } = Object(Object(tenant)['login']);
  const isBearer = authorizedParties !== undefined && redirectUri === undefined;
  const { session = isBearer ? 'bearer' : 'cookie' } = options;
  // The secret of a host's cookies is no value of onboarding.
  const rules = v.safeParse(moduleSchema, { http, allowedOrigins, session, secrets: ['-'.repeat(32)] });
  const { settings, problems } = rules.success
    ? checkTenant(tenant, '', rules.output)
    : { settings: undefined, problems: problemsOf(rules.issues) };
  if (!rules.success || settings === undefined || problems.length > 0) {
    throw allWrong(problems.map(({ path, expected }) => [path, `${path} ${expected}`]));
  }
  try {
    checkLookupFilter(hints);
    return new Examination(new Tenant(SINGLE_TENANT, settings, rules.output.http), hints, rules.output);
  } catch (error) {
    if (!isExhibitorError(error)) {
      throw error;
    }
    const [hint = ''] = error.message.split(' ');
    throw wrong(error.code === 'configuration_invalid' ? 'http.dispatcher' : hint, error.message);
  }
}
