import { Inject, Injectable } from '@nestjs/common';
import { ExhibitorError, type ExhibitorErrorDetails } from '../errors/exhibitor.error.js';
import { OperatorLog, type OperatorProblem } from '../tenants/operator-log.service.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import type { Deadline } from '../time/deadline.js';
import type { TimedToken } from '../tokens/held-token.js';
import { TokenService } from '../tokens/token.service.js';
import type { TransportReply } from '../transport/transport-request.interface.js';
import { Transport } from '../transport/transport.service.js';

/** A GET of the REST API. */
export interface RestRequest {
  operation: 'list' | 'lookup';
  /** Path below `{base_url}` with encoded parameters and query. */
  path: string;
  /** Path with the names of its parameters, for diagnostics. */
  template: string;
  /** E-mail address that a lookup is about. */
  contact?: string;
}

/** Sends REST requests with bearer token and tenant header (service specification, Authentication). */
@Injectable()
export class RestClient {
  readonly #transport: Transport;
  readonly #tokens: TokenService;
  readonly #log: OperatorLog;
  readonly #clock: Clock;

  constructor(
    @Inject(Transport) transport: Transport,
    @Inject(TokenService) tokens: TokenService,
    @Inject(OperatorLog) log: OperatorLog,
    @Inject(Clock) clock: Clock,
  ) {
    this.#transport = transport;
    this.#tokens = tokens;
    this.#log = log;
    this.#clock = clock;
  }

  /**
   * The 2xx reply to a GET. After a 401 the token is replaced and the request sent again. Where the second token may be as
   * old as the first, a third and last request has one that this process asks the token endpoint for.
   *
   * @throws {ExhibitorError} `access_denied` for the last 401 or a 403, `not_found`, `request_rejected` for any other
   * 4xx, and errors of {@link Transport.send} and the token service
   */
  async get(tenant: Tenant, request: RestRequest, deadline: Deadline): Promise<TransportReply> {
    const first = await this.#send(tenant, request, deadline);
    if (first.reply.status !== 401) {
      return this.#accept(first.reply, tenant, request, first.reply.attempts);
    }
    const refusedAt = this.#clock.now();
    this.#tokens.refused(tenant, first.timed, first.reply.sentAt);
    const second = await this.#send(tenant, request, deadline);
    const attempts = first.reply.attempts + second.reply.attempts;
    if (second.reply.status !== 401) {
      return this.#accept(second.reply, tenant, request, attempts);
    }
    if (!second.timed.isShared && second.timed.requestedAt >= refusedAt) {
      this.#tokens.refused(tenant, second.timed, second.reply.sentAt);
      return this.#accept(second.reply, tenant, request, attempts);
    }
    this.#tokens.refusedAgain(tenant, second.timed, second.reply.sentAt);
    const third = await this.#send(tenant, request, deadline);
    if (third.reply.status === 401) {
      this.#tokens.refused(tenant, third.timed, third.reply.sentAt);
    }
    return this.#accept(third.reply, tenant, request, attempts + third.reply.attempts);
  }

  #accept(reply: TransportReply, tenant: Tenant, request: RestRequest, attempts: number): TransportReply {
    if (reply.status < 300) {
      tenant.stateKey.hasAnswered = true;
      return reply;
    }
    const problem = problemOf(reply.status, request, tenant.stateKey.hasAnswered);
    if (problem !== undefined) {
      this.#log.report(tenant, problem);
    }
    throw refusal(reply.status, tenant, attempts);
  }

  async #send(
    tenant: Tenant,
    { path, ...rest }: RestRequest,
    deadline: Deadline,
  ): Promise<{ reply: TransportReply; timed: TimedToken }> {
    const timed = await this.#tokens.tokenFor(tenant, deadline);
    const headers = { Authorization: `Bearer ${timed.accessToken}`, 'X-Tenant-Id': tenant.tenantId };
    const url = `${tenant.baseUrl}${path}`;
    const request = { ...rest, method: 'GET', url, headers } as const;
    return { reply: await this.#transport.send(tenant, request, deadline), timed };
  }
}

function refusal(status: number, tenant: Tenant, attempts: number): ExhibitorError {
  const details: ExhibitorErrorDetails = { tenant: tenant.key, status, attempts };
  if (status === 404) {
    return new ExhibitorError('not_found', 'the service knows no such resource', details);
  }
  if (status === 401 || status === 403) {
    return new ExhibitorError('access_denied', `the service denied access with status ${status}`, details);
  }
  return new ExhibitorError(
    'request_rejected',
    `the service rejected the request with status ${status}`,
    details,
  );
}

/**
 * What an operator may have to mend. A 404 has two suspects: the base URL and the event. For a lookup it is also the regular
 * answer for a person without exhibitor, so that it is reported only until the base URL has answered a request.
 */
function problemOf(status: number, request: RestRequest, hasAnswered: boolean): OperatorProblem | undefined {
  if (status === 401 || status === 403) {
    return {
      cause: 'access',
      options: ['tenantId', 'scope'],
      message:
        `the service denied access with status ${status} to a new token: the tenant id is not that of the API client, ` +
        'or the scope is not enough',
    };
  }
  if (status !== 404 || (request.operation === 'lookup' && hasAnswered)) {
    return undefined;
  }
  return {
    cause: `${request.operation} 404`,
    options: ['baseUrl'],
    message:
      'the service answered 404: the path of the base URL is wrong, or there is no such event: ' +
      (request.operation === 'list' ? request.path : request.template),
    isWarning: true,
  };
}
