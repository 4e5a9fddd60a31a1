import { Inject, Injectable } from '@nestjs/common';
import { createLocalJWKSet, type CompactVerifyGetKey, type LocalJWKSet } from 'jose';
import type { KeySource } from '../options/key-source.js';
import { PerTenant } from '../tenants/per-tenant.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import { Deadline } from '../time/deadline.js';
import { Transport } from '../transport/transport.service.js';
import { filterJwks } from './filter-jwks.js';
import { requestProvider, unusableReply } from './provider-request.js';
import { RemoteJwks } from './remote-jwks.js';

const ENDPOINT = 'the keys of the provider';

/** Public keys to verify the tokens of a tenant's provider. */
@Injectable()
export class VerificationKeys {
  readonly #transport: Transport;
  readonly #clock: Clock;
  readonly #remote = new PerTenant<RemoteJwks>();
  readonly #fixed = new WeakMap<KeySource, Promise<LocalJWKSet>>();

  constructor(@Inject(Transport) transport: Transport, @Inject(Clock) clock: Clock) {
    this.#transport = transport;
    this.#clock = clock;
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
    const remote = this.#remote.getOrCreate(tenant, () => new RemoteJwks(this.#clock));
    return deadline.race(remote.get(kid, () => this.#fetch(tenant, source.url)));
  }

  #fixedKeys(source: Extract<KeySource, { kind: 'jwks' }>): Promise<LocalJWKSet> {
    const known = this.#fixed.get(source) ?? filterJwks(source.jwks).then(createLocalJWKSet);
    this.#fixed.set(source, known);
    return known;
  }

  /**
   * Fetches a JWKS for all callers that wait for it, with a deadline of its own: half of theirs, so that after a failure they
   * have time left to go on with the last good keys.
   */
  async #fetch(tenant: Tenant, url: string): Promise<unknown> {
    const deadline = Deadline.start(this.#clock, tenant.http.deadline / 2);
    const request = { operation: 'keys', method: 'GET', url, template: 'keys' } as const;
    try {
      const { status, body } = await requestProvider(this.#transport, tenant, request, deadline, ENDPOINT);
      if (status === 200) {
        return body;
      }
    } finally {
      deadline.end();
    }
    throw unusableReply(ENDPOINT);
  }
}
