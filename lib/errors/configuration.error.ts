import { inspect } from 'node:util';
import { ExhibitorError } from './exhibitor.error.js';

/** One wrong option. Its value is not shown: it may be a secret. */
export interface ConfigurationProblem {
  /** Path of the option, `tenants.acme.baseUrl`. */
  path: string;
  /** Expected value, `must be https`. */
  expected: string;
}

/**
 * The options are wrong (`configuration_invalid`). Reports all wrong values together, each with its option path; where there are none, all
 * rules between options that are broken. It has no stack: where Nest created the module says nothing about an option.
 */
export class ConfigurationError extends ExhibitorError {
  declare readonly code: 'configuration_invalid';
  readonly problems: readonly ConfigurationProblem[];

  /** @param cause error thrown by a function of the host, which whoever finds it logs */
  constructor(problems: readonly ConfigurationProblem[], tenant?: string, cause?: unknown) {
    const lines = problems.map(({ path, expected }) => (path ? `${path}: ${expected}` : expected));
    super('configuration_invalid', `nestjs-exhibitor is not configured correctly:\n  ${lines.join('\n  ')}`, {
      tenant,
      cause,
      isOfHost: cause !== undefined,
    });
    this.problems = problems;
    this.stack = `${this.name}: ${this.message}`;
  }

  /** Nest logs an error as `util.inspect` shows it, which would repeat each line as a member of `problems`. */
  [inspect.custom](): string {
    const { stack = '', cause } = this;
    return cause === undefined ? stack : `${stack}\n  [cause]: ${inspect(cause)}`;
  }
}
