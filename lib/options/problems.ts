import { getDotPath, type BaseIssue } from 'valibot';
import type { ConfigurationProblem } from '../errors/configuration.error.js';

/** Turns schema issues into problems by option path. No value is shown: it may be a secret. */
export function problemsOf(issues: readonly BaseIssue<unknown>[], path = ''): ConfigurationProblem[] {
  return issues.map((issue) => {
    const inner = getDotPath(issue) ?? '';
    return { path: [path, inner].filter(Boolean).join('.'), expected: expectation(issue) };
  });
}

function expectation(issue: BaseIssue<unknown>): string {
  if (issue.kind === 'schema' && issue.input === undefined && issue.path !== undefined) {
    return 'is required';
  }
  // A key that is unknown or missing carries the message of the object around it.
  if (issue.type !== 'strict_object' || issue.expected === 'Object') {
    return issue.message;
  }
  return issue.expected === 'never' ? 'is not an option' : 'is required';
}
