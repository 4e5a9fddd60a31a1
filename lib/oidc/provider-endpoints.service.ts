import { Injectable } from '@nestjs/common';
import type { EndpointName, Tenant } from '../tenants/tenant.js';
import type { Deadline } from '../time/deadline.js';

/** URLs of the endpoints that a login uses: those of the option `endpoints`, else those of the service. */
@Injectable()
export class ProviderEndpoints {
  /** The URL of an endpoint that a login needs. */
  async urlOf(tenant: Tenant, name: 'authorize' | 'token' | 'userinfo', deadline: Deadline): Promise<string> {
    return (await this.findUrl(tenant, name, deadline)) ?? tenant.defaultEndpoint(name);
  }

  /** The URL of an endpoint; `undefined` where the provider has none. */
  async findUrl(tenant: Tenant, name: EndpointName, _deadline: Deadline): Promise<string | undefined> {
    return tenant.settings.endpoints?.[name] ?? tenant.defaultEndpoint(name);
  }
}

/** Path of an endpoint for diagnostics. */
export function templateOf(url: string): string {
  return new URL(url).pathname;
}
