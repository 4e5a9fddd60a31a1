import { Inject, Injectable } from '@nestjs/common';
import { ExhibitorError, type ExhibitorErrorDetails } from '../errors/exhibitor.error.js';
import { statusProblem } from '../config/problems/partner-problems.js';
import { ProblemLog } from '../config/problems/problem-log.service.js';
import type { Tenant } from '../config/tenant.js';
import type { Call } from '../call/call.js';
import type { AccessToken } from '../tokens/token-lifetime.js';
import { TokenService } from '../tokens/token.service.js';
import type { TransportReply, TransportRequest } from '../http/transport-request.interface.js';
import { Transport } from '../http/transport.service.js';

export interface RestRequest extends Pick<TransportRequest, 'template'> {
  operation: 'list' | 'lookup';
  /** Path below `{base_url}` with encoded parameters and query. */
  path: string;
  /** Of a lookup. */
  contact?: string;
}

/** Sends REST requests with bearer token and tenant header (service specification, Authentication). */
@Injectable()
export class RestClient {
  constructor(
    @Inject(Transport) private readonly transport: Transport,
    @Inject(TokenService) private readonly tokens: TokenService,
    @Inject(ProblemLog) private readonly log: ProblemLog,
  ) {}

  /**
   * The 2xx reply to a GET. After a 401 the request is sent once more where there is another token.
   *
   * @throws {ExhibitorError} `access_denied` for the second 401 or a 403, `not_found`, `request_rejected` for any other
   * 4xx, and errors of {@link Transport.send} and the token service
   */
  async get(tenant: Tenant, request: RestRequest, call: Call): Promise<TransportReply> {
    const token = await this.tokens.tokenFor(tenant, call);
    const first = await this.#send(tenant, request, token, call);
    const other =
      first.status === 401 ? await this.tokens.tokenAfter401(tenant, token, first.sentAt, call) : undefined;
    const reply = other === undefined ? first : await this.#send(tenant, request, other, call);
    if (reply.status === 403) {
      this.tokens.renewAfter403(tenant, other ?? token, reply.sentAt);
    }
    return this.#accept(reply, tenant, request, call);
  }

  #accept(reply: TransportReply, tenant: Tenant, request: RestRequest, call: Call): TransportReply {
    if (reply.status < 300) {
      tenant.stateKey.hasAnswered = true;
      return reply;
    }
    const sent = { operation: request.operation, url: tenant.baseUrl + request.path };
    this.log.report(tenant, statusProblem(reply.status, sent, reply.body, tenant.stateKey.hasAnswered));
    throw errorOf(reply.status, tenant, call.sent);
  }

  async #send(
    tenant: Tenant,
    { operation, path, template, contact }: RestRequest,
    { accessToken }: Pick<AccessToken, 'accessToken'>,
    call: Call,
  ): Promise<TransportReply> {
    const headers = { authorization: `Bearer ${accessToken}`, 'x-tenant-id': tenant.tenantId };
    const url = `${tenant.baseUrl}${path}`;
    const request = { operation, method: 'GET', url, template, headers, about: contact } as const;
    return this.transport.send(tenant, request, call);
  }
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
