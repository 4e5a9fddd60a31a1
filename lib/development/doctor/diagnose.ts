import { ExhibitorError } from '../../errors/exhibitor.error.js';
import { isExhibitorError } from '../../errors/is-exhibitor-error.js';
import type { TenantOptions } from '../../config/tenant-options.interface.js';
import { problemText } from '../../config/problems/problem-log.service.js';
import type { Call } from '../../call/call.js';
import { Calls } from '../../call/calls.service.js';
import { begin, Unproved, type Diagnosis, type Json } from './diagnosis.js';
import type { DiagnosisHints, Finding } from './finding.js';
import { authorize, cookies, loginClient, metadata, publishedKey } from './login-steps.js';
import { access, apiClient, clock, connection, list, lookup, valid } from './service-steps.js';

/** Returns what it proved, or throws `Unproved` or what a service throws. */
type Step = (diagnosis: Diagnosis, call: Call) => Promise<string>;

const SERVICE: Record<string, Step> = { connection, clock, token: apiClient, tenant: access, list, lookup };
const LOGIN: Record<string, Step> = { metadata, keys: publishedKey, authorize, login: loginClient, cookies };
const STEPS = Object.entries({ options: valid, ...SERVICE, ...LOGIN });

/**
 * Finds out which values of a tenant are wrong, by about a dozen requests to the service and the provider, one at a time. Nobody is
 * logged in. There is one finding for each step. The services of the module run in an application context of their own, which Nest
 * announces in the log.
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

/** {@link diagnose} for the option `tenant` of a module, whose other options matter to it. @internal */
export async function* diagnoseModule(
  given: Json | Promise<Json>,
  hints: DiagnosisHints,
): AsyncIterable<Finding> {
  let diagnosis: Diagnosis;
  try {
    diagnosis = await begin(await given, hints);
  } catch (error) {
    const rest = new Unproved("not tested: the step 'options' failed");
    yield* STEPS.map(([step], at) => findingOf(step, at === 0 ? error : rest));
    return;
  }
  try {
    for (const [step, test] of STEPS) {
      const finding = await examine(step, test, diagnosis);
      diagnosis.findings.push(finding);
      yield finding;
    }
  } finally {
    await diagnosis.context.close();
  }
}

async function examine(step: string, test: Step, diagnosis: Diagnosis): Promise<Finding> {
  const { context, tenant, seen, hints } = diagnosis;
  Object.assign(seen, { address: '', problem: undefined });
  const work = (call: Call): Promise<string> => test(diagnosis, call);
  try {
    const message = await context.get(Calls).start(tenant.http.deadline, hints.signal).run(work);
    return { step, status: 'ok', message };
  } catch (error) {
    if (hints.signal?.aborted === true) {
      throw new ExhibitorError('aborted', 'the caller aborted the diagnosis');
    }
    return findingOf(step, error, diagnosis);
  }
}

function findingOf(step: string, error: unknown, known?: Diagnosis): Finding {
  const { message, options } = unprovedOf(error, known);
  const suspects = options.filter((option) => known?.proved.has(option) !== true);
  if (suspects.length === 0) {
    return { step, status: 'unknown', message };
  }
  // An earlier finding explains this one if it names one of them alone: of several, it is not known which is wrong.
  const cause = known?.findings.find(({ option }) => option !== undefined && suspects.includes(option));
  if (cause === undefined) {
    return { step, status: 'wrong', option: suspects.join(', '), message, advice: adviceOn(suspects) };
  }
  return {
    step,
    status: 'unknown',
    message: `not tested: the step '${cause.step}' failed for ${cause.option}`,
  };
}

/** What an error says of the options. Those that are none of the module are thrown again. */
function unprovedOf(error: unknown, known: Diagnosis | undefined): Unproved {
  if (error instanceof Unproved) {
    return error;
  }
  if (!isExhibitorError(error)) {
    throw error;
  }
  const { message } = error;
  if (error.code === 'configuration_invalid') {
    const options = error.problems.map(({ path }) => path.replace('tenant.', ''));
    const messages = error.problems.map(({ expected }, at) => `${options[at]} ${expected}`);
    return new Unproved(messages.join('; '), options);
  }
  if (error.code === 'invalid_argument') {
    // Of a hint: the message begins with its name and a space.
    return new Unproved(message, [message.slice(0, message.indexOf(' '))]);
  }
  const { address = '', problem } = known?.seen ?? {};
  const text = known?.shown(problem === undefined ? message : problemText(problem)) ?? message;
  // Of a list or lookup. The services report every other reply that they cannot use.
  const options = problem?.options ?? (error.code === 'malformed_response' ? ['baseUrl'] : []);
  return new Unproved(text.includes(address) ? text : `${address}: ${text}`, options);
}

function adviceOn(options: readonly string[]): string {
  if (options.includes('login.clockTolerance')) {
    return 'Set the clock of this host (NTP) rather than the option.';
  }
  if (options.every((option) => option.startsWith('secrets'))) {
    return 'It is your own, and no value of onboarding: openssl rand -base64 32.';
  }
  const isOfProvider = options.every((option) => /^(?:login|endpoints)\./.test(option));
  const whom = isOfProvider ? 'the administrator of the identity provider' : "the service's onboarding";
  return `Is it as onboarding says? Ask ${whom}.`;
}
