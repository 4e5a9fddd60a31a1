/**
 * Runs in every suite: each error that the package creates during a test is checked after the test, and a test whose
 * errors show a secret fails.
 */
import { afterAll, afterEach } from '@jest/globals';
import { ExhibitorError } from '../../lib/errors/exhibitor.error.js';
import { TENANTS } from '../../lib/development/sandbox/seed/seed.js';
import { addSecret, leaksOf } from './leaks.js';

const made: unknown[] = [];

/** What `super()` of the base class of our errors calls in a test. */
class CollectedError extends Error {
  constructor(message?: string, options?: ErrorOptions) {
    super(message, options);
    made.push(this);
  }
}
Object.setPrototypeOf(ExhibitorError, CollectedError);

for (const { clientSecret, loginClientSecret } of TENANTS) {
  addSecret(clientSecret);
  addSecret(loginClientSecret);
}

/** Checks the errors created since the last check. */
export function assertNoSecretShown(): void {
  const errors = made.splice(0);
  const leaks = errors.flatMap((error) =>
    leaksOf(error).map((leak) => `${String(error).slice(0, 60)}… shows ${leak}`),
  );
  if (leaks.length > 0) {
    throw new Error(`errors show what they must not:\n${leaks.join('\n')}`);
  }
}

afterEach(assertNoSecretShown);
afterAll(assertNoSecretShown);
