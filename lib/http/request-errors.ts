import type { Call } from '../call/call.js';
import { failedRequest, partnerProblem } from '../config/problems/partner-problems.js';
import type { ProblemLog } from '../config/problems/problem-log.service.js';
import type { Tenant } from '../config/tenant.js';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { errorOf, type Failure } from '../errors/failure.js';
import type { NotSent } from './limits/pauses.js';
import { describeOutcome, isOwnFailure, wordsOf, type Outcome } from './outcome.js';
import type { TransportRequest } from './transport-request.interface.js';

/** Where the circuit is open, or the queue is full. */
const NOT_SENT: Failure = {
  code: 'service_unavailable',
  message: 'the service cannot be reached, or too many wait',
};

/** Creates the error of a request that is not sent again, and tells operators why. */
export class RequestErrors {
  constructor(
    private readonly tenant: Tenant,
    private readonly request: TransportRequest,
    private readonly call: Call,
    private readonly log: ProblemLog,
  ) {}

  /** Our limits, or a partner that needs a pause, let no request be sent. */
  notSent({ failure = NOT_SENT, retryAfterMs }: NotSent): ExhibitorError {
    const message = `not sent: ${failure.message}`;
    this.#report('not sent', message);
    const details = { tenant: this.tenant.key, attempts: this.call.sent, retryAfterMs };
    return errorOf({ ...failure, message }, details);
  }

  /**
   * The call is over. That its caller left, or that the module closed, is no problem of an operator.
   *
   * @param outcome of the request that this ended; `undefined` where it was not sent
   */
  over(outcome?: Outcome): ExhibitorError {
    const { key: tenant } = this.tenant;
    const error = this.call.failure({ tenant, attempts: this.call.sent, status: outcome?.status });
    if (error.code === 'deadline_exceeded') {
      this.#report(outcome === undefined ? 'not sent in time' : wordsOf(outcome), error.message);
    }
    return error;
  }

  /** The last attempt failed: perhaps an operator has to mend an address. */
  failed(outcome: Outcome, retryAfterMs: number | undefined): ExhibitorError {
    const { tenant, log } = this;
    const { code = 'service_unavailable', status } = outcome;
    const message = describeOutcome(outcome);
    const details = { tenant: tenant.key, attempts: this.call.sent, status, retryAfterMs };
    if (outcome.kind === 'failed' && outcome.cause === 'interceptor') {
      log.hostFailed({ option: 'axios' }, outcome.thrown);
      return new ExhibitorError(code, message, { ...details, cause: outcome.passedOn, isOfHost: true });
    }
    const { operation, url } = this.request;
    const problem = failedRequest(tenant, { operation, url, blame: 'partner', ...outcome, code, message });
    if (isOwnFailure(outcome)) {
      // One problem of all tenants.
      log.report(undefined, problem);
    } else {
      log.partnerFailed(tenant, operation, wordsOf(outcome), problem);
    }
    return new ExhibitorError(code, message, details);
  }

  #report(how: string, message: string): void {
    const { operation } = this.request;
    this.log.partnerFailed(this.tenant, operation, how, partnerProblem(operation, message));
  }
}
