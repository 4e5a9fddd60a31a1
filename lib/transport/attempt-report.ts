import { publish } from '../diagnostics/channels.js';
import type { ExhibitorErrorCode } from '../errors/error-codes.js';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { addressProblem } from '../problems/address-problems.js';
import type { ProblemLog } from '../problems/problem-log.service.js';
import type { Tenant } from '../tenants/tenant.js';
import type { Deadline } from '../time/deadline.js';
import { codeOf, describeOutcome, type Outcome } from './outcome.js';
import type { TransportRequest } from './transport-request.interface.js';
import { TOO_LARGE } from './wire/reply-limits.js';

/** What callers, operators and diagnostics are told about the attempts of one request. `sent` counts the requests so far. */
export class AttemptReport {
  constructor(
    private readonly tenant: Tenant,
    private readonly request: TransportRequest,
    private readonly deadline: Deadline,
    /** Of the URL of the request. */
    private readonly origin: string,
    private readonly log: ProblemLog,
  ) {}

  /** The error of a call that is over. */
  over(sent: number, status?: number): ExhibitorError {
    return this.deadline.failure({ tenant: this.tenant.key, attempts: sent, status });
  }

  /** The error of a request that got no slot. */
  refused(sent: number, retryAfterMs: number): ExhibitorError {
    return new ExhibitorError('service_unavailable', 'not sent: the service fails or is too busy', {
      tenant: this.tenant.key,
      attempts: sent,
      retryAfterMs: Math.ceil(retryAfterMs),
    });
  }

  /** The error after the last attempt. Tells operators as well where they may have to mend an address. */
  failed(outcome: Outcome, sent: number, retryAfterMs: number | undefined): ExhibitorError {
    let cause: unknown;
    if (outcome.kind === 'failed') {
      const { operation } = this.request;
      const isTooLarge = outcome.reason === TOO_LARGE;
      const failed = { ...outcome, operation, origin: this.origin, isTooLarge };
      this.log.report(this.tenant, addressProblem(this.tenant, failed));
      cause = outcome.cause;
    }
    return new ExhibitorError(codeOf(outcome) ?? 'service_unavailable', describeOutcome(outcome), {
      tenant: this.tenant.key,
      attempts: sent,
      status: outcome.status,
      retryAfterMs,
      cause,
    });
  }

  /** Publishes the end of one request on the diagnostics channel. */
  publish(outcome: Outcome, attempt: number, durationMs: number): void {
    const { operation, template } = this.request;
    publish('request', () => ({
      tenant: this.tenant.key,
      operation,
      template,
      status: outcome.status,
      durationMs,
      attempt,
      code: this.#codeOf(outcome),
    }));
  }

  #codeOf(outcome: Outcome): ExhibitorErrorCode | undefined {
    const isOver = outcome.kind === 'failed' && outcome.why === 'over';
    return isOver ? this.deadline.failure().code : codeOf(outcome);
  }
}
