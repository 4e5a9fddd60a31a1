/**
 * Runs before every suite. Jest loads all modules anew for each suite, so most functions run too seldom for optimized code to
 * pay off: V8 of Node 20 optimizes them 30 times later, which saves processor time in short suites. V8 of Node 22
 * does not have the flag.
 */
import { setFlagsFromString } from 'node:v8';

if (process.versions.node.startsWith('20.')) {
  setFlagsFromString('--interrupt-budget=2000000');
}
