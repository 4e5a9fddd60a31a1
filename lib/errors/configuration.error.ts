import { ExhibitorError } from './exhibitor.error.js';

/** One wrong option: where it is and what was expected. Values are never shown, they may be secrets. */
export interface ConfigurationProblem {
  /** Path of the option, `tenants.acme.baseUrl`. */
  path: string;
  /** What was expected, `must be https`. */
  expected: string;
}

/** The options are wrong (`configuration_invalid`). Names every problem at once, each by its path. */
export class ConfigurationError extends ExhibitorError {
  readonly problems: readonly ConfigurationProblem[];

  constructor(problems: readonly ConfigurationProblem[], tenant?: string) {
    const lines = problems.map(({ path, expected }) => (path ? `${path}: ${expected}` : expected));
    super('configuration_invalid', `nestjs-exhibitor is not configured correctly:\n  ${lines.join('\n  ')}`, {
      tenant,
    });
    this.problems = problems;
  }
}
