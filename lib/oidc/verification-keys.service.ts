import { Inject, Injectable } from '@nestjs/common';
import type { CompactVerifyGetKey, LocalJWKSet } from 'jose';
import type { KeySource } from '../options/key-source.js';
import { keysNotFound } from '../problems/provider-problems.js';
import { PerTenant } from '../tenants/per-tenant.js';
import { TenantRegistry } from '../tenants/tenant-registry.service.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import type { Deadline } from '../time/deadline.js';
import { filterJwks, localKeys } from './filter-jwks.js';
import { patienceOf, ProviderDocuments, waitForShared } from './provider-documents.service.js';
import type { FetchJwks, RemoteJwks } from './remote-jwks.js';
import { SharedJwks, type SharedKeys } from './shared-by-url.js';

/** Public keys to verify the tokens of a tenant's provider. */
@Injectable()
export class VerificationKeys {
  readonly #documents: ProviderDocuments;
  readonly #shared: SharedJwks;
  readonly #remote = new PerTenant<SharedKeys>();
  readonly #fixed = new WeakMap<KeySource, Promise<LocalJWKSet>>();

  constructor(
    @Inject(ProviderDocuments) documents: ProviderDocuments,
    @Inject(Clock) clock: Clock,
    @Inject(TenantRegistry) tenants: TenantRegistry,
  ) {
    this.#documents = documents;
    this.#shared = new SharedJwks(clock);
    tenants.onForget((tenant) => this.#remote.get(tenant)?.jwks.expire());
  }

  /** The keys for a token whose header has this `kid`. */
  async keysFor(
    tenant: Tenant,
    source: KeySource,
    kid: string | undefined,
    deadline: Deadline,
  ): Promise<CompactVerifyGetKey> {
    if (source.kind === 'pem') {
      return () => source.key;
    }
    if (source.kind === 'jwks') {
      return this.#fixedKeys(source);
    }
    const { jwks, fetch } = await this.#remoteKeys(tenant, source.url);
    return waitForShared(tenant, deadline, jwks.get(kid, fetch, patienceOf(tenant)));
  }

  /** The keys that were published after `used`, for a token whose signature fits none of `used`. */
  async newerKeys(
    tenant: Tenant,
    source: KeySource,
    used: CompactVerifyGetKey,
    deadline: Deadline,
  ): Promise<CompactVerifyGetKey | undefined> {
    if (source.kind !== 'url') {
      return undefined;
    }
    const { jwks, fetch } = await this.#remoteKeys(tenant, source.url);
    return waitForShared(tenant, deadline, jwks.newerThan(used, fetch, patienceOf(tenant)));
  }

  async #remoteKeys(tenant: Tenant, url: string): Promise<{ jwks: RemoteJwks; fetch: FetchJwks }> {
    const { jwks, stateKey } = await this.#sharedKeys(tenant, url);
    const source = {
      operation: 'keys',
      url,
      name: 'the keys of the provider',
      stateKey,
      problem: (status: number) => keysNotFound(tenant.login?.keys === undefined, status),
    } as const;
    return { jwks, fetch: (within) => this.#documents.fetch(tenant, source, within) };
  }

  async #sharedKeys(tenant: Tenant, url: string): Promise<SharedKeys> {
    const known = this.#remote.get(tenant);
    // Discovery may name another URL later.
    if (known?.url === url) {
      return known;
    }
    const shared = this.#shared.of(url, await this.#documents.dispatcherOf(tenant));
    this.#remote.delete(tenant);
    return this.#remote.getOrCreate(tenant, () => shared);
  }

  #fixedKeys(source: Extract<KeySource, { kind: 'jwks' }>): Promise<LocalJWKSet> {
    const known = this.#fixed.get(source) ?? filterJwks(source.jwks).then(localKeys);
    this.#fixed.set(source, known);
    return known;
  }
}
