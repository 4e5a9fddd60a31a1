import { Inject, Injectable } from '@nestjs/common';
import { ExhibitorError, type ExhibitorErrorDetails } from '../errors/exhibitor.error.js';
import type { Tenant } from '../tenants/tenant.js';
import type { Deadline } from '../time/deadline.js';
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

  constructor(@Inject(Transport) transport: Transport, @Inject(TokenService) tokens: TokenService) {
    this.#transport = transport;
    this.#tokens = tokens;
  }

  /**
   * The 2xx reply to a GET. After a 401 the token is replaced and the request sent once more.
   *
   * @throws {ExhibitorError} `access_denied` for a second 401 or a 403, `not_found`, `request_rejected` for any other
   * 4xx, and errors of {@link Transport.send} and the token service
   */
  async get(tenant: Tenant, request: RestRequest, deadline: Deadline): Promise<TransportReply> {
    const first = await this.#send(tenant, request, deadline);
    if (first.reply.status !== 401) {
      return accept(first.reply, tenant, first.reply.attempts);
    }
    this.#tokens.refused(tenant, first.accessToken);
    const second = await this.#send(tenant, request, deadline);
    if (second.reply.status === 401) {
      this.#tokens.refused(tenant, second.accessToken);
    }
    return accept(second.reply, tenant, first.reply.attempts + second.reply.attempts);
  }

  async #send(
    tenant: Tenant,
    { path, ...rest }: RestRequest,
    deadline: Deadline,
  ): Promise<{ reply: TransportReply; accessToken: string }> {
    const { accessToken } = await this.#tokens.tokenFor(tenant, deadline);
    const headers = { Authorization: `Bearer ${accessToken}`, 'X-Tenant-Id': tenant.tenantId };
    const url = `${tenant.baseUrl}${path}`;
    const request = { ...rest, method: 'GET', url, headers } as const;
    return { reply: await this.#transport.send(tenant, request, deadline), accessToken };
  }
}

function accept(reply: TransportReply, tenant: Tenant, attempts: number): TransportReply {
  const { status } = reply;
  if (status < 300) {
    return reply;
  }
  const details: ExhibitorErrorDetails = { tenant: tenant.key, status, attempts };
  if (status === 404) {
    throw new ExhibitorError('not_found', 'the service knows no such resource', details);
  }
  if (status === 401 || status === 403) {
    throw new ExhibitorError('access_denied', `the service denied access with status ${status}`, details);
  }
  throw new ExhibitorError(
    'request_rejected',
    `the service rejected the request with status ${status}`,
    details,
  );
}
