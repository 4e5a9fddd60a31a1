/**
 * Runs in every suite: each error of the package that is made anywhere in a test is looked at after it, and a test
 * whose errors show a secret fails.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { afterAll, afterEach } from '@jest/globals';
import { TENANTS } from '../../lib/testing/seed.js';
import { knownSecrets, leaksOf } from './leaks.js';

const CHANNEL = 'nestjs-exhibitor:error';
const made: unknown[] = [];
const collect = (error: unknown): void => {
  made.push(error);
};

for (const { clientSecret, loginClientSecret } of TENANTS) {
  knownSecrets.add(clientSecret).add(loginClientSecret);
}

/** Looks at the errors made since the last look. */
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
