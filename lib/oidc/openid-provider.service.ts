import { Inject, Injectable } from '@nestjs/common';
import type { CompactVerifyGetKey } from 'jose';
import { LoginFailedError, type LoginFailureReason } from '../errors/login-failed.error.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import type { ExhibitorSettings } from '../options/exhibitor-settings.js';
import type { KeySource } from '../options/key-source.js';
import { ProblemLog } from '../problems/problem-log.service.js';
import { refusedAddress, uselessMetadata } from '../problems/provider-problems.js';
import { TenantRegistry } from '../tenants/tenant-registry.service.js';
import type { EndpointName, Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import type { Deadline } from '../time/deadline.js';
import { Deadlines } from '../time/deadlines.service.js';
import { Transport } from '../transport/transport.service.js';
import { metadataUrl, parseMetadata, urlsFor, type Metadata, type MetadataUrl } from './parse-metadata.js';
import { ProviderDocuments } from './provider-documents.js';
import { ProviderKeys } from './provider-keys.js';

const METADATA = 'the metadata of the provider';

/** A provider may have none of these. The others are required (Discovery 1.0 §3). */
const OPTIONAL: ReadonlySet<MetadataUrl> = new Set<MetadataUrl>(['userinfo', 'endSession']);

/**
 * Addresses and keys of a tenant's provider: those of the options; with `login.discovery` those of the provider's metadata
 * (OpenID Connect Discovery 1.0 §4); else those of the service.
 *
 * Methods throw `LoginFailedError`: `issuer` where the metadata names another issuer, `provider` where it, an address or the
 * keys cannot be used; `ExhibitorError`: `service_unavailable`, `rate_limited` or `deadline_exceeded` where the provider is
 * down or slow.
 */
@Injectable()
export class OpenIdProvider {
  readonly #allowedOrigins: ExhibitorSettings['allowedOrigins'];
  readonly #log: ProblemLog;
  readonly #metadata: ProviderDocuments<Metadata>;
  readonly #keys: ProviderKeys;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(Transport) transport: Transport,
    @Inject(Deadlines) deadlines: Deadlines,
    @Inject(Clock) clock: Clock,
    @Inject(ProblemLog) log: ProblemLog,
    @Inject(TenantRegistry) registry: TenantRegistry,
  ) {
    const { http } = settings;
    this.#allowedOrigins = settings.allowedOrigins;
    const tools = { http, transport, deadlines, clock, log };
    this.#log = log;
    this.#keys = new ProviderKeys(tools);
    this.#metadata = new ProviderDocuments(
      {
        operation: 'metadata',
        name: METADATA,
        urlOf: metadataUrl,
        parse: (body, tenant) => this.#parse(body, tenant),
      },
      tools,
    );
    registry.forgotten.subscribe((tenant) => {
      this.#metadata.expire(tenant);
      this.#keys.expire(tenant);
    });
  }

  async urlOf(tenant: Tenant, name: 'authorize' | 'token' | 'userinfo', deadline: Deadline): Promise<string> {
    return (await this.findUrl(tenant, name, deadline)) ?? refuse(tenant, `names no ${name} endpoint`);
  }

  /** The URL of an endpoint; `undefined` where the provider has none. */
  async findUrl(tenant: Tenant, name: EndpointName, deadline: Deadline): Promise<string | undefined> {
    const set = tenant.settings.endpoints?.[name];
    if (set !== undefined || tenant.login?.discovery !== true) {
      return set ?? tenant.defaultEndpoint(name);
    }
    return this.#discoveredUrl(tenant, name, deadline);
  }

  /** True where an authorization response without `iss` must be refused (RFC 9207 §2.4). */
  async requiresIss(tenant: Tenant, deadline: Deadline): Promise<boolean> {
    const { requireIss, discovery, issuer = '' } = tenant.login ?? {};
    if (requireIss !== undefined || discovery !== true) {
      return requireIss === true;
    }
    return (await this.#metadata.read(tenant, issuer, deadline)).sendsIss;
  }

  /** The keys for a token whose header has this `kid`, and whose signature fits none of `used`, see {@link ProviderKeys}. */
  async keysFor(
    tenant: Tenant,
    kid: string | undefined,
    deadline: Deadline,
    used?: CompactVerifyGetKey,
  ): Promise<CompactVerifyGetKey> {
    return this.#keys.keysFor(tenant, await this.#keySourceOf(tenant, deadline), kid, deadline, used);
  }

  async #keySourceOf(tenant: Tenant, deadline: Deadline): Promise<KeySource> {
    const set = tenant.login?.keys;
    if (set !== undefined) {
      return set;
    }
    const url = await this.#discoveredUrl(tenant, 'keys', deadline);
    return { kind: 'url', url: url ?? refuse(tenant, 'names no keys') };
  }

  /** The URL that the metadata names; `undefined` where it names none. */
  async #discoveredUrl(tenant: Tenant, name: MetadataUrl, deadline: Deadline): Promise<string | undefined> {
    const issuer = tenant.login?.issuer ?? '';
    const metadata = await this.#metadata.read(tenant, issuer, deadline);
    const read = urlsFor(metadata, tenant.key, this.#allowedOrigins)[name];
    if (typeof read === 'string' || (read === undefined && OPTIONAL.has(name))) {
      return read;
    }
    // The provider may have mended it: a host should not have to wait until the metadata is read again anyway.
    const newer = await this.#metadata.read(tenant, issuer, deadline, metadata);
    const url = urlsFor(newer, tenant.key, this.#allowedOrigins)[name];
    if (typeof url !== 'object') {
      return url;
    }
    this.#log.report(tenant, refusedAddress(name, url));
    return refuse(tenant, 'names an address that is not accepted');
  }

  #parse(body: unknown, tenant: Tenant): Metadata {
    const issuer = tenant.login?.issuer ?? '';
    const metadata = parseMetadata(body, issuer);
    if (!('reason' in metadata)) {
      return metadata;
    }
    // Also where the last good metadata is used meanwhile.
    this.#log.report(tenant, uselessMetadata(metadata.reason, issuer, metadata.received));
    return refuse(tenant, `cannot be used (${metadata.reason})`, metadata.reason);
  }
}

function refuse(tenant: Tenant, why: string, reason: LoginFailureReason = 'provider'): never {
  throw new LoginFailedError(reason, `${METADATA} ${why}`, { tenant: tenant.key });
}
