import { ConfigurationError } from '../errors/configuration.error.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { checkLookupFilter } from '../exhibitors/call-options.schema.js';
import { checkOptions, SINGLE_TENANT } from '../options/check-options.js';
import type { TenantOptions } from '../options/tenant-options.interface.js';
import { Tenant } from '../tenants/tenant.js';
import { loginClient, token } from './client-steps.js';
import { Examination } from './examination.js';
import { allWrong, notTested, Unproved, wrong, type DiagnosisHints, type Finding } from './finding.js';
import { authorize, cookies, keys, metadata } from './login-steps.js';
import { access, clock, list, lookup, names, tls } from './service-steps.js';

/** Returns what it proved, or throws {@link Unproved}. */
type Step = (examination: Examination) => string | Promise<string>;

const SERVICE: Readonly<Record<string, Step>> = { names, tls, clock, token, tenant: access, list, lookup };
const LOGIN: Readonly<Record<string, Step>> = { metadata, keys, authorize, login: loginClient, cookies };
const STEPS = Object.entries({ ...SERVICE, ...LOGIN });

/** What an error says, by its code. The message of a wrong argument begins with its name. */
const VERDICTS: Readonly<Record<string, (message: string) => Unproved>> = {
  configuration_invalid: () => notTested('the options have no login in the browser'),
  invalid_argument: (message) => wrong(message.slice(0, message.indexOf(' ')), message),
  malformed_response: (message) => wrong('baseUrl', message),
};

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
    yield unproved('options', error instanceof ConfigurationError ? wrongOptions(error) : error);
    yield* STEPS.map(([step]) => unproved(step, notTested("the step 'options' failed")));
    return;
  }
  yield { step: 'options', status: 'ok', message: 'the options are valid' };
  for (const [step, prove] of STEPS) {
    const finding = await run(step, prove, examination);
    examination.findings.push(finding);
    yield finding;
  }
}

/** @throws {ExhibitorError} `configuration_invalid` as the module does, `invalid_argument` for a hint */
function begin(options: Readonly<Record<string, unknown>>, hints: DiagnosisHints): Examination {
  const { tenant, http, allowedOrigins } = options;
  const { login }: { login?: { authorizedParties?: unknown; redirectUri?: unknown } } = Object(tenant);
  const isBearer = login?.authorizedParties !== undefined && login.redirectUri === undefined;
  const { session = isBearer ? 'bearer' : 'cookie' } = options;
  // The secret of a host's cookies is no value of onboarding.
  const secrets = ['of no cookie: the doctor seals nothing'];
  const { settings, tenants } = checkOptions({ tenant, http, allowedOrigins, session, secrets });
  checkLookupFilter(hints);
  const [own] = 'find' in tenants ? [] : tenants.values();
  if (own === undefined) {
    throw notTested('there are no options of a tenant');
  }
  return new Examination(new Tenant(SINGLE_TENANT, own, settings.http), hints, settings);
}

function wrongOptions({ problems }: ConfigurationError): Unproved {
  const found = problems.map(({ path, expected }) => [path.replace('tenant.', ''), expected] as const);
  return allWrong(found.map(([option, expected]) => [option, `${option} ${expected}`]));
}

async function run(step: string, prove: Step, examination: Examination): Promise<Finding> {
  try {
    return { step, status: 'ok', message: await prove(examination) };
  } catch (error) {
    const finding = unproved(step, error);
    const suspects = finding.option?.split(', ') ?? [];
    // An option that is wrong by itself explains what later steps find.
    const known = examination.findings.find(
      ({ status, option = '' }) => status === 'wrong' && suspects.includes(option),
    );
    return known === undefined
      ? finding
      : unproved(step, notTested(`the step '${known.step}' failed for ${known.option}`));
  }
}

/** The finding on a step that threw. Errors that say nothing of the options are thrown again. */
function unproved(step: string, error: unknown): Finding {
  const verdict = isExhibitorError(error) ? VERDICTS[error.code]?.(error.message) : error;
  if (!(verdict instanceof Unproved)) {
    throw error;
  }
  return { step, ...verdict.finding };
}
