/**
 * Runs in every suite: each error that the package creates during a test is checked after the test, and a test whose
 * errors show a secret fails.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { afterAll, afterEach } from '@jest/globals';
import { TENANTS } from '../../lib/testing/sandbox/seed/seed.js';
import { addSecret, leaksOf } from './leaks.js';

const CHANNEL = 'nestjs-exhibitor:error';
const made: unknown[] = [];
const collect = (error: unknown): void => {
  made.push(error);
};

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

subscribe(CHANNEL, collect);
afterEach(assertNoSecretShown);
afterAll(() => {
  unsubscribe(CHANNEL, collect);
  assertNoSecretShown();
});
