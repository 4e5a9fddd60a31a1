import { Inject, Injectable } from '@nestjs/common';
import { LoginFailedError } from '../errors/login-failed.error.js';
import type { KeySource } from '../options/key-source.js';
import type { EndpointName, Tenant } from '../tenants/tenant.js';
import type { Deadline } from '../time/deadline.js';
import { ProviderMetadata } from './provider-metadata.service.js';

/**
 * Addresses that a login uses: those of the options; with `login.discovery` those of the provider's metadata; else those of the
 * service. Methods throw as {@link ProviderMetadata.urlOf}.
 */
@Injectable()
export class ProviderEndpoints {
  readonly #metadata: ProviderMetadata;

  constructor(@Inject(ProviderMetadata) metadata: ProviderMetadata) {
    this.#metadata = metadata;
  }

  /** The URL of an endpoint that a login needs. */
  async urlOf(tenant: Tenant, name: 'authorize' | 'token' | 'userinfo', deadline: Deadline): Promise<string> {
    return (await this.findUrl(tenant, name, deadline)) ?? refuseMissing(tenant, `${name} endpoint`);
  }

  /** The URL of an endpoint; `undefined` where the provider has none. */
  async findUrl(tenant: Tenant, name: EndpointName, deadline: Deadline): Promise<string | undefined> {
    const set = tenant.settings.endpoints?.[name];
    if (set !== undefined || tenant.login?.discovery !== true) {
      return set ?? tenant.defaultEndpoint(name);
    }
    return this.#metadata.urlOf(tenant, name, deadline);
  }

  /** Where the keys of the provider come from. */
  async keySourceOf(tenant: Tenant, deadline: Deadline): Promise<KeySource> {
    const set = tenant.login?.keys;
    if (set !== undefined) {
      return set;
    }
    const url = await this.#metadata.urlOf(tenant, 'keys', deadline);
    return { kind: 'url', url: url ?? refuseMissing(tenant, 'keys') };
  }

  /** True where an authorization response without `iss` must be refused (RFC 9207 §2.4). */
  async requiresIss(tenant: Tenant, deadline: Deadline): Promise<boolean> {
    const { requireIss, discovery } = tenant.login ?? {};
    return requireIss ?? (discovery === true && (await this.#metadata.sendsIss(tenant, deadline)));
  }
}

/** Path of an endpoint for diagnostics. */
export function templateOf(url: string): string {
  return new URL(url).pathname;
}

function refuseMissing(tenant: Tenant, what: string): never {
  throw new LoginFailedError('provider', `the metadata of the provider names no ${what}`, {
    tenant: tenant.key,
  });
}
