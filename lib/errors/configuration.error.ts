import { ExhibitorError } from './exhibitor.error.js';

/** One wrong option. Its value is not shown: it may be a secret. */
export interface ConfigurationProblem {
  /** Path of the option, `tenants.acme.baseUrl`. */
  path: string;
  /** Expected value, `must be https`. */
  expected: string;
}

/** The options are wrong (`configuration_invalid`). Reports all problems together, each with its option path. */
export class ConfigurationError extends ExhibitorError {
  declare readonly code: 'configuration_invalid';
  readonly problems: readonly ConfigurationProblem[];

  /** @param cause error thrown by a function of the host */
  constructor(problems: readonly ConfigurationProblem[], tenant?: string, cause?: unknown) {
    const lines = problems.map(({ path, expected }) => (path ? `${path}: ${expected}` : expected));
    super('configuration_invalid', `nestjs-exhibitor is not configured correctly:\n  ${lines.join('\n  ')}`, {
      tenant,
      cause,
    });
    this.problems = problems;
  }
}
