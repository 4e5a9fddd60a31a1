import * as v from 'valibot';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { checkContactEmail } from '../exhibitors/check-arguments.js';
import { checkEventId } from '../model/event-id.js';
import { SINGLE_TENANT } from '../options/check-options.js';
import { checkTenant } from '../options/check-tenant.js';
import { moduleSchema } from '../options/exhibitor-settings.js';
import type { TenantOptions } from '../options/tenant-options.interface.js';
import { Tenant } from '../tenants/tenant.js';
import { loginClient, token } from './client-steps.js';
import { clock, names, tls } from './connection-steps.js';
import { Examination, NotTested } from './examination.js';
import {
  ok,
  unknown,
  wrong,
  wrongOr,
  type DiagnosisHints,
  type Finding,
  type Verdict,
} from './finding.interface.js';
import { authorize, cookies } from './login-steps.js';
import { keys, metadata } from './provider-steps.js';
import { access, list, lookup } from './service-steps.js';

type Run = (examination: Examination) => Verdict | Promise<Verdict>;

const STEPS: readonly (readonly [step: string, run: Run])[] = [
  ['names', names],
  ['tls', tls],
  ['clock', clock],
  ['token', token],
  ['tenant', access],
  ['list', list],
  ['lookup', lookup],
  ['metadata', metadata],
  ['keys', keys],
  ['authorize', authorize],
  ['login', loginClient],
  ['cookies', cookies],
];

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
export async function* diagnose(options: TenantOptions, hints: DiagnosisHints = {}): AsyncIterable<Finding> {
  const examination = examine(options, hints);
  if ('status' in examination) {
    yield { step: 'options', ...examination };
    yield* STEPS.map(([step]) => ({ step, ...unknown("not tested: the step 'options' failed") }));
    return;
  }
  try {
    yield { step: 'options', ...ok('the options are valid') };
    for (const [step, run] of STEPS) {
      const verdict = await testedBy(run, examination);
      if (verdict.status === 'wrong' && verdict.option !== undefined) {
        examination.refuted.set(verdict.option, step);
      }
      yield { step, ...verdict };
    }
  } finally {
    await examination.close();
  }
}

async function testedBy(run: Run, examination: Examination): Promise<Verdict> {
  try {
    return await run(examination);
  } catch (error) {
    if (error instanceof NotTested) {
      return unknown(`not tested: ${error.message}`);
    }
    // Steps of a login throw it where the tenant has none.
    if (isExhibitorError(error) && error.code === 'configuration_invalid') {
      return unknown('not tested: the options have no login in the browser');
    }
    throw error;
  }
}

/** The examination of a tenant, or what is wrong with its options. */
function examine(options: TenantOptions, hints: DiagnosisHints): Examination | Verdict {
  const isBearer = options?.login?.authorizedParties !== undefined && !('redirectUri' in options.login);
  // The secret of a host's cookies is no value of onboarding.
  const rules = v.parse(moduleSchema, { session: isBearer ? 'bearer' : 'cookie', secrets: ['-'.repeat(32)] });
  const { settings, problems } = checkTenant(options, '', rules);
  if (settings === undefined || problems.length > 0) {
    return wrongOr(
      '',
      problems.map(({ path, expected }) => [path, `${path} ${expected}`]),
    );
  }
  try {
    checkEventId(hints.eventId ?? 'none');
    checkContactEmail(hints.contactEmail ?? 'nobody@example.com');
    return new Examination(new Tenant(SINGLE_TENANT, settings, rules.http), hints);
  } catch (error) {
    if (!isExhibitorError(error)) {
      throw error;
    }
    const [hint = ''] = error.message.split(' ');
    return wrong(error.code === 'configuration_invalid' ? 'http.dispatcher' : hint, error.message);
  }
}
