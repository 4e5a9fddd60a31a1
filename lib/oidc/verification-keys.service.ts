import type { KeyObject } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { createLocalJWKSet, type LocalJWKSet } from 'jose';
import type { KeySource } from '../options/key-source.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import { Deadline } from '../time/deadline.js';
import { Transport } from '../transport/transport.service.js';
import { providerFailure } from './provider-failure.js';
import { RemoteJwks } from './remote-jwks.js';
import { filterJwks } from './filter-jwks.js';

/** Public keys of the tenants' providers. */
@Injectable()
export class VerificationKeys {
  readonly #remote = new WeakMap<object, RemoteJwks>();
  readonly #fixed = new WeakMap<object, Promise<LocalJWKSet>>();

  constructor(
    @Inject(Transport) private readonly transport: Transport,
    @Inject(Clock) private readonly clock: Clock,
  ) {}

  /** What to verify a token with whose header names `kid`. */
  async keysFor(
    tenant: Tenant,
    source: KeySource,
    kid: string | undefined,
    deadline: Deadline,
  ): Promise<KeyObject | LocalJWKSet> {
    if (source.kind === 'pem') {
      return source.key;
    }
    if (source.kind === 'jwks') {
      return this.#fixedSet(source);
    }
    const remote = this.#remote.get(tenant.stateKey) ?? new RemoteJwks(this.clock);
    this.#remote.set(tenant.stateKey, remote);
    return createLocalJWKSet(await deadline.race(remote.get(kid, () => this.#fetch(tenant, source.url))));
  }

  #fixedSet(source: Extract<KeySource, { kind: 'jwks' }>): Promise<LocalJWKSet> {
    const known = this.#fixed.get(source) ?? filterJwks(source.jwks).then(createLocalJWKSet);
    this.#fixed.set(source, known);
    return known;
  }

  /**
   * Has a deadline of its own: the fetch is shared, and one caller's haste must not fail it for all. Half of theirs, so
   * that a caller who waits in vain has time left to go on with the last good keys.
   */
  async #fetch(tenant: Tenant, url: string): Promise<unknown> {
    const deadline = Deadline.start(this.clock, tenant.http.deadline / 2);
    const request = {
      operation: 'keys',
      method: 'GET',
      url,
      template: 'keys',
      headers: { Accept: 'application/json' },
    } as const;
    try {
      const reply = await this.transport.send(tenant, request, deadline);
      if (reply.status === 200) {
        return reply.body;
      }
    } catch (error) {
      throw providerFailure(error, 'the keys of the provider');
    } finally {
      deadline.end();
    }
    throw providerFailure(undefined, 'the keys of the provider');
  }
}
