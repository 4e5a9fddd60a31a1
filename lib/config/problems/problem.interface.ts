import type { LoginFailureReason } from '../../errors/login-failed.error.js';

/** What a check refuses: the reason for the caller; for the operator the options to look at, where some may be the cause. */
export interface Refusal {
  reason: LoginFailureReason;
  /** Path below the tenant: `login.issuer`. */
  option?: string | readonly string[] | undefined;
  /** What is wrong, where the reason and the values do not say it. Never text from outside. */
  detail?: string | undefined;
  expected?: string | undefined;
  received?: string | undefined;
  /** As of a {@link Problem}. */
  isUnverified?: boolean;
  isWarning?: boolean;
}

/** A failure that only an operator can mend. */
export interface Problem {
  /**
   * Identifies the cause: one line a minute for each tenant and cause. Choose it from a fixed set. A cause from outside would
   * have no limit.
   */
  cause: string;
  /** Options to look at, by their paths below the tenant: `login.issuer`. */
  options: readonly string[];
  /** What happened. Secrets must be removed, see `hideSecrets`; the rest of foreign text is made safe by the log. */
  message: string;
  /** Expected and received value, where neither is a secret. Text from outside is made safe by the log. */
  expected?: string | undefined;
  received?: string | undefined;
  /** Of what a function of the host threw: further lines, indented. */
  stack?: string;
  /**
   * True where a browser or a client delivered the cause, so that anybody can forge it. The line is a warning that says so, and
   * has a limit of its own.
   */
  isUnverified?: boolean;
  /** True where the options may be right: logged as a warning. Default: as an error. */
  isWarning?: boolean;
}
