import { Inject, Injectable } from '@nestjs/common';
import { LoginFailedError } from '../errors/login-failed.error.js';
import { isRecord } from '../model/json-values.js';
import { OperatorLog } from '../tenants/operator-log.service.js';
import type { Tenant } from '../tenants/tenant.js';
import type { Deadline } from '../time/deadline.js';
import { Transport } from '../transport/transport.service.js';
import { ProviderEndpoints, templateOf } from './provider-endpoints.service.js';
import { requestProvider, unusableReply } from './provider-request.js';

/** Claims of a user. */
export type Claims = Record<string, unknown>;

/** Reads the userinfo endpoint with the access token of the user (OIDC Core §5.3). */
@Injectable()
export class UserInfo {
  readonly #transport: Transport;
  readonly #endpoints: ProviderEndpoints;
  readonly #log: OperatorLog;

  constructor(
    @Inject(Transport) transport: Transport,
    @Inject(ProviderEndpoints) endpoints: ProviderEndpoints,
    @Inject(OperatorLog) log: OperatorLog,
  ) {
    this.#transport = transport;
    this.#endpoints = endpoints;
    this.#log = log;
  }

  /**
   * The claims of `subject`. A reply with another `sub` must not be used (OIDC Core §5.3.2).
   *
   * @throws {LoginFailedError} `subject`, or `provider` where the reply cannot be used
   */
  async read(tenant: Tenant, accessToken: string, subject: string, deadline: Deadline): Promise<Claims> {
    const url = await this.#endpoints.urlOf(tenant, 'userinfo', deadline);
    const request = {
      operation: 'userinfo',
      method: 'GET',
      url,
      template: templateOf(url),
      headers: { Authorization: `Bearer ${accessToken}` },
    } as const;
    const { status, body } = await requestProvider(this.#transport, tenant, request, deadline, 'userinfo');
    if (status !== 200 || !isRecord(body)) {
      this.#log.report(tenant, {
        cause: 'userinfo',
        options: [tenant.endpointOption('userinfo')],
        message: 'userinfo answered without claims',
        received: `status ${status}`,
      });
      throw unusableReply('userinfo');
    }
    if (body['sub'] !== subject) {
      throw new LoginFailedError('subject', 'userinfo names another subject', { tenant: tenant.key });
    }
    return body;
  }
}
