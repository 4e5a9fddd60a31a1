import { Inject, Injectable } from '@nestjs/common';
import { ExhibitorError, type ExhibitorErrorDetails } from '../errors/exhibitor.error.js';
import { statusProblem } from '../problems/address-problems.js';
import { ProblemLog } from '../problems/problem-log.service.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import type { Deadline } from '../time/deadline.js';
import type { TimedToken } from '../tokens/token-lifetime.js';
import { TokenService } from '../tokens/token.service.js';
import type { TransportReply, TransportRequest } from '../transport/transport-request.interface.js';
import { Transport } from '../transport/transport.service.js';

export interface RestRequest extends Pick<TransportRequest, 'template'> {
  operation: 'list' | 'lookup';
  /** Path below `{base_url}` with encoded parameters and query. */
  path: string;
}

/** Sends REST requests with bearer token and tenant header (service specification, Authentication). */
@Injectable()
export class RestClient {
  constructor(
    @Inject(Transport) private readonly transport: Transport,
    @Inject(TokenService) private readonly tokens: TokenService,
    @Inject(ProblemLog) private readonly log: ProblemLog,
    @Inject(Clock) private readonly clock: Clock,
  ) {}

  /**
   * The 2xx reply to a GET. After a 401 the token is replaced and the request sent again. Where the second token may be as
   * old as the first, a third and last request has one that this process asks the token endpoint for.
   *
   * @throws {ExhibitorError} `access_denied` for the last 401 or a 403, `not_found`, `request_rejected` for any other
   * 4xx, and errors of {@link Transport.send} and the token service
   */
  async get(tenant: Tenant, request: RestRequest, deadline: Deadline): Promise<TransportReply> {
    let firstRefusedAt = Number.POSITIVE_INFINITY;
    for (let tokens = 1; ; tokens++) {
      const token = await this.tokens.tokenFor(tenant, deadline);
      const reply = await this.#send(tenant, request, token, deadline);
      if (reply.status !== 401) {
        return this.#accept(reply, tenant, request, deadline);
      }
      const next = tokenAfter(token, tokens, firstRefusedAt);
      this.tokens.removeRefused(tenant, token, reply.sentAt, next === 'own' ? 'refused-again' : 'refused');
      if (next === 'none') {
        return this.#accept(reply, tenant, request, deadline);
      }
      firstRefusedAt = Math.min(firstRefusedAt, this.clock.now());
    }
  }

  #accept(reply: TransportReply, tenant: Tenant, request: RestRequest, deadline: Deadline): TransportReply {
    if (reply.status < 300) {
      tenant.stateKey.hasAnswered = true;
      return reply;
    }
    this.log.report(tenant, statusProblem(reply.status, request, tenant.stateKey.hasAnswered));
    throw errorOf(reply.status, tenant, deadline.sent);
  }

  #send(
    tenant: Tenant,
    { operation, path, template }: RestRequest,
    { accessToken }: TimedToken,
    deadline: Deadline,
  ): Promise<TransportReply> {
    const headers = { authorization: `Bearer ${accessToken}`, 'x-tenant-id': tenant.tenantId };
    const url = `${tenant.baseUrl}${path}`;
    const request = { operation, method: 'GET', url, template, headers } as const;
    return this.transport.send(tenant, request, deadline);
  }
}

/**
 * The token after one that was refused, in the same call: `newer` than that, of any process; `own`, which this process requests;
 * or `none`, where the refusal counts.
 *
 * @param tokens number of tokens that the call has tried
 * @param firstRefusedAt {@link Clock.now} when its first one was refused
 */
function tokenAfter(refused: TimedToken, tokens: number, firstRefusedAt: number): 'newer' | 'own' | 'none' {
  if (tokens === 1) {
    return 'newer';
  }
  // No token is newer than one that this process requested after the first refusal.
  const isNewest = !refused.isShared && refused.requestedAt >= firstRefusedAt;
  return tokens === 2 && !isNewest ? 'own' : 'none';
}

function errorOf(status: number, tenant: Tenant, attempts: number): ExhibitorError {
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
