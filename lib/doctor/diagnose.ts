import { randomBytes } from 'node:crypto';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { checkContactEmail } from '../exhibitors/check-arguments.js';
import { checkEventId } from '../model/event-id.js';
import { checkOptions } from '../options/check-options.js';
import { parseUrl } from '../options/option-schemas.js';
import type { TenantOptions } from '../options/tenant-options.interface.js';
import { loginClient, token } from './client-steps.js';
import { clock, names, tls } from './connection-steps.js';
import { Examination, notTested } from './examination.js';
import { ok, unknown, wrong, type DiagnosisHints, type Finding, type Verdict } from './finding.interface.js';
import { authorize, cookies } from './login-steps.js';
import { keys, metadata } from './provider-steps.js';
import { access, list, lookup } from './service-steps.js';

type Step = readonly [
  step: string,
  run: (examination: Examination) => Verdict | Promise<Verdict>,
  needs?: 'login' | 'redirectUri',
];

const STEPS: readonly Step[] = [
  ['names', names],
  ['tls', tls],
  ['clock', clock],
  ['token', token],
  ['tenant', access],
  ['list', list],
  ['lookup', lookup],
  ['metadata', metadata, 'login'],
  ['keys', keys, 'login'],
  ['authorize', authorize, 'redirectUri'],
  ['login', loginClient, 'redirectUri'],
  ['cookies', cookies, 'redirectUri'],
];

/**
 * Finds out which values of a tenant are wrong, by at most a dozen requests to the service and the provider, one at a time, each
 * within `http.deadline`. Nobody is logged in. One finding for each step; a step that an earlier failure hinders is `unknown`.
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
    yield* STEPS.map(([step]) => ({ step, ...unknown(notTested('options')) }));
    return;
  }
  try {
    yield { step: 'options', ...ok('the options are valid') };
    const { login } = examination.tenant;
    const given = { login, redirectUri: login?.redirectUri };
    for (const [step, run, needs] of STEPS) {
      const isNeedless = needs !== undefined && given[needs] === undefined;
      const verdict = isNeedless ? unknown(`not tested: there is no ${needs}`) : await run(examination);
      if (verdict.status === 'wrong' && verdict.option !== undefined) {
        examination.refuted.set(verdict.option, step);
      }
      yield { step, ...verdict };
    }
  } finally {
    await examination.close();
  }
}

/** The examination of a tenant, or what is wrong with its options. */
function examine(options: TenantOptions, hints: DiagnosisHints): Examination | Verdict {
  const { eventId, contactEmail, startUrl } = hints;
  const isBearer = options?.login?.authorizedParties !== undefined && !('redirectUri' in options.login);
  // The secret of a host's cookies is no value of onboarding.
  const secrets = [randomBytes(24).toString('base64url')];
  try {
    const checked = checkOptions({ tenant: options, secrets, session: isBearer ? 'bearer' : 'cookie' });
    checkEventId(eventId ?? 'none');
    checkContactEmail(contactEmail ?? 'nobody@example.com');
    if (startUrl !== undefined && parseUrl(startUrl) === undefined) {
      return wrong('startUrl', 'startUrl must be an absolute URL');
    }
    return new Examination(checked, hints);
  } catch (error) {
    if (!isExhibitorError(error)) {
      throw error;
    }
    if (error.code !== 'configuration_invalid') {
      const [hint = ''] = error.message.split(' ');
      return wrong(hint, error.message);
    }
    const problems = error.problems.map(({ path, expected }) => ({
      path: path.replace('tenant.', ''),
      expected,
    }));
    const message = problems.map(({ path, expected }) => `${path} ${expected}`).join('; ');
    return wrong(problems.map(({ path }) => path).join(', '), message);
  }
}
