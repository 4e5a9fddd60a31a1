import TestSequencer from '@jest/test-sequencer';

/**
 * Suites of more than 5 s, the longest first, and early one that collects the garbage of its worker. In a fresh clone Jest has
 * no durations yet and would sort by file size.
 */
const LONG = [
  'browser/npm-start.spec.ts',
  'login/conformance.spec.ts',
  'model/json-values.spec.ts',
  'browser/live-list.spec.ts',
  'login/browser.spec.ts',
  'browser/people.spec.ts',
  'exhibitors/lookup-limits.spec.ts',
  'login/fuzz.spec.ts',
  'exhibitors/shared-lookups.spec.ts',
  'exhibitors/leaving.spec.ts',
  'structure/linear-time.spec.ts',
  'store/lost-logout.spec.ts',
  'store/several-processes.spec.ts',
  'module/many-callers.spec.ts',
  'transport/leaving.spec.ts',
  'login/provider-trouble.spec.ts',
  'faults/faults.spec.ts',
  'structure/readme.spec.ts',
  'login/require-iss.spec.ts',
  'guards/selection.spec.ts',
  'login/end-session.spec.ts',
  'login/back-channel.spec.ts',
  'bearer/bearer-host.spec.ts',
];

/** Starts the long suites first, so that no worker is left with one of them at the end. */
export default class LongSuitesFirst extends TestSequencer {
  sort(tests) {
    const rank = ({ path }) => {
      const index = LONG.findIndex((name) => path.endsWith(`/test/${name}`));
      return index === -1 ? LONG.length : index;
    };
    // oxlint-disable-next-line unicorn/no-array-sort -- the method of the sequencer, which answers a new array
    return super.sort(tests).toSorted((a, b) => rank(a) - rank(b));
  }
}
