import { writeFileSync } from 'node:fs';

/** Writes the counts after each suite to `COUNTS_FILE`, so that they are known of a run that is killed. */
export default class CountsReporter {
  counts = { passed: 0, failed: 0, skipped: 0 };

  onTestResult(_test, result) {
    this.counts.passed += result.numPassingTests;
    // A suite that did not run has an error and no test.
    this.counts.failed += Math.max(result.numFailingTests, result.testExecError === undefined ? 0 : 1);
    this.counts.skipped += result.numPendingTests + result.numTodoTests;
    writeFileSync(process.env.COUNTS_FILE, JSON.stringify(this.counts));
  }
}
