import { Inject, Injectable } from '@nestjs/common';
import { LoginFailedError } from '../errors/login-failed.error.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import { ProblemLog } from '../problems/problem-log.service.js';
import { metadataNotFound, refusedAddress, uselessMetadata } from '../problems/provider-problems.js';
import { PerTenant } from '../tenants/per-tenant.js';
import { TenantRegistry } from '../tenants/tenant-registry.service.js';
import { newStateKey, type StateKey, type Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import type { Deadline } from '../time/deadline.js';
import { parseMetadata, type Metadata, type MetadataUrl } from './parse-metadata.js';
import { patienceOf, ProviderDocuments, waitForShared } from './provider-documents.service.js';
import { RemoteDocument } from './remote-document.js';
import { SharedByUrl } from './shared-by-url.js';

const NAME = 'the metadata of the provider';

/** A provider may have none of these. The others are required (Discovery 1.0 §3). */
const OPTIONAL: ReadonlySet<MetadataUrl> = new Set<MetadataUrl>(['userinfo', 'endSession']);

interface SharedMetadata {
  readonly document: RemoteDocument<Metadata>;
  readonly stateKey: StateKey;
}

/**
 * Metadata of the providers of tenants with `login.discovery` (OpenID Connect Discovery 1.0 §4): read when first needed, used
 * for 10 minutes, and for a day while it cannot be read.
 */
@Injectable()
export class ProviderMetadata {
  readonly #allowedOrigins: readonly string[] | undefined;
  readonly #documents: ProviderDocuments;
  readonly #log: ProblemLog;
  readonly #shared: SharedByUrl<SharedMetadata>;
  readonly #ofTenant = new PerTenant<SharedMetadata>();

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(ProviderDocuments) documents: ProviderDocuments,
    @Inject(ProblemLog) log: ProblemLog,
    @Inject(Clock) clock: Clock,
    @Inject(TenantRegistry) tenants: TenantRegistry,
  ) {
    this.#allowedOrigins = settings.allowedOrigins;
    this.#documents = documents;
    this.#log = log;
    this.#shared = new SharedByUrl(() => ({ document: new RemoteDocument(clock), stateKey: newStateKey() }));
    tenants.onForget((tenant) => this.#ofTenant.get(tenant)?.document.expire());
  }

  /**
   * The URL that the metadata names; `undefined` where it names none.
   *
   * @throws {LoginFailedError} `issuer` where the metadata names another issuer; `provider` where it or the URL cannot be used
   * @throws {ExhibitorError} `service_unavailable`, `rate_limited` or `deadline_exceeded` where the provider is down or slow
   */
  async urlOf(tenant: Tenant, name: MetadataUrl, deadline: Deadline): Promise<string | undefined> {
    const read = (await this.#read(tenant, deadline)).urls[name];
    // The provider may have mended it: a host should not have to wait until the metadata is read again anyway.
    const isUsable = typeof read === 'string' || (read === undefined && OPTIONAL.has(name));
    const url = isUsable ? read : (await this.#read(tenant, deadline, 'again')).urls[name];
    if (typeof url !== 'object') {
      return url;
    }
    const message = `${NAME} names an address that is not accepted`;
    this.#log.report(tenant, refusedAddress(name, url));
    throw new LoginFailedError('provider', message, { tenant: tenant.key });
  }

  /** True where the provider says that each of its authorization responses has an `iss` (RFC 9207 §3). */
  async sendsIss(tenant: Tenant, deadline: Deadline): Promise<boolean> {
    return (await this.#read(tenant, deadline)).sendsIss;
  }

  /** @param which `again`: also where it is fresh, but not twice in 30 s */
  async #read(tenant: Tenant, deadline: Deadline, which?: 'again'): Promise<Metadata> {
    const issuer = tenant.login?.issuer ?? '';
    const url = metadataUrl(issuer);
    const dispatcher = await this.#documents.dispatcherOf(tenant);
    const { document, stateKey } = this.#ofTenant.getOrCreate(tenant, () =>
      // With and without a trailing slash, an issuer has the same address of its metadata.
      this.#shared.of(`${url} ${issuer}`, dispatcher),
    );
    const fetch = (within: number): Promise<Metadata> =>
      this.#fetch(tenant, { url, issuer, stateKey }, within);
    const patience = patienceOf(tenant);
    const read = async (): Promise<Metadata> => {
      await (which === 'again' ? document.refetch(fetch, patience) : document.refresh(fetch, patience));
      return document.require();
    };
    return waitForShared(tenant, deadline, read());
  }

  async #fetch(
    tenant: Tenant,
    { url, issuer, stateKey }: { url: string; issuer: string; stateKey: StateKey },
    within: number,
  ): Promise<Metadata> {
    const source = {
      operation: 'metadata',
      url,
      name: NAME,
      stateKey,
      problem: metadataNotFound,
    } as const;
    const metadata = parseMetadata(
      await this.#documents.fetch(tenant, source, within),
      issuer,
      this.#allowedOrigins,
    );
    if (!('reason' in metadata)) {
      return metadata;
    }
    const { reason, received } = metadata;
    const message = `${NAME} cannot be used (${reason})`;
    // Also where the last good metadata is used meanwhile.
    this.#log.report(tenant, uselessMetadata(reason, issuer, received));
    throw new LoginFailedError(reason, message);
  }
}

/** Discovery 1.0 §4: a trailing slash is removed from the issuer. */
function metadataUrl(issuer: string): string {
  return `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
}
