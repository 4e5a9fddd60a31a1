import TestSequencer from '@jest/test-sequencer';

/**
 * Suites of more than 7 s, the longest last: in a fresh clone Jest has no durations, and starts large files first. Those that measure
 * times run later, beside suites that take less of the processor.
 */
const LONG = [
  'integrations/redis-store.spec.ts',
  'tokens/shared-tokens.spec.ts',
  'store/processes.spec.ts',
  'development/sandbox/command.spec.ts',
  'login/conformance.spec.ts',
  'login/browser.spec.ts',
  'package/nest-11.spec.ts',
  'package/nest-new.spec.ts',
  'sample/npm-start.spec.ts',
  'sample/portal.spec.ts',
];

/** Starts the long suites first, so that no worker is left with one of them at the end. */
export default class LongSuitesFirst extends TestSequencer {
  sort(tests) {
    const rank = ({ path }) => LONG.findIndex((name) => path.endsWith(`/test/${name}`));
    // oxlint-disable-next-line unicorn/no-array-sort -- the method of the sequencer, which answers a new array
    return super.sort(tests).toSorted((a, b) => rank(b) - rank(a));
  }
}
