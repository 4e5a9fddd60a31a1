import { Inject, Injectable } from '@nestjs/common';
import { createLocalJWKSet, type CompactVerifyGetKey, type LocalJWKSet } from 'jose';
import { ExhibitorError, isExhibitorError } from '../errors/exhibitor.error.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import type { HttpSettings } from '../options/http-options.interface.js';
import type { KeySource } from '../options/key-source.js';
import { OperatorLog } from '../tenants/operator-log.service.js';
import { PerTenant } from '../tenants/per-tenant.js';
import { TenantRegistry } from '../tenants/tenant-registry.service.js';
import type { StateKey, Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import { Deadline } from '../time/deadline.js';
import { Transport } from '../transport/transport.service.js';
import { filterJwks } from './filter-jwks.js';
import { requestProvider, unusableReply } from './provider-request.js';
import type { FetchJwks, RemoteJwks } from './remote-jwks.js';
import { SharedJwks, type SharedKeys } from './shared-jwks.js';

const ENDPOINT = 'the keys of the provider';

/** Public keys to verify the tokens of a tenant's provider. */
@Injectable()
export class VerificationKeys {
  readonly #http: HttpSettings;
  readonly #transport: Transport;
  readonly #clock: Clock;
  readonly #log: OperatorLog;
  readonly #shared: SharedJwks;
  readonly #remote = new PerTenant<SharedKeys>();
  readonly #fixed = new WeakMap<KeySource, Promise<LocalJWKSet>>();

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(Transport) transport: Transport,
    @Inject(Clock) clock: Clock,
    @Inject(TenantRegistry) tenants: TenantRegistry,
    @Inject(OperatorLog) log: OperatorLog,
  ) {
    this.#log = log;
    this.#http = settings.http;
    this.#transport = transport;
    this.#clock = clock;
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
    const { jwks, fetch } = this.#remoteKeys(tenant, source.url);
    return waitFor(tenant, deadline, jwks.get(kid, fetch, patienceOf(tenant)));
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
    const { jwks, fetch } = this.#remoteKeys(tenant, source.url);
    return waitFor(tenant, deadline, jwks.newerThan(used, fetch, patienceOf(tenant)));
  }

  #remoteKeys(tenant: Tenant, url: string): { jwks: RemoteJwks; fetch: FetchJwks } {
    const { jwks, stateKey } = this.#remote.getOrCreate(tenant, () =>
      this.#shared.of(url, this.#transport.dispatcherOf(tenant)),
    );
    return { jwks, fetch: (within) => this.#fetch(tenant, url, stateKey, within) };
  }

  #fixedKeys(source: Extract<KeySource, { kind: 'jwks' }>): Promise<LocalJWKSet> {
    const known = this.#fixed.get(source) ?? filterJwks(source.jwks).then(createLocalJWKSet);
    this.#fixed.set(source, known);
    return known;
  }

  /**
   * Fetches a JWKS for all tenants that share it, with the `http` options of the module: those of one tenant must not fail
   * the others. Only a longer `attemptTimeout` is taken over.
   */
  async #fetch(tenant: Tenant, url: string, stateKey: StateKey, within: number): Promise<unknown> {
    const dispatcher = this.#transport.dispatcherOf(tenant);
    const http = {
      ...this.#http,
      attemptTimeout: Math.max(this.#http.attemptTimeout, tenant.http.attemptTimeout),
      dispatcher: dispatcher && (() => dispatcher),
    };
    const asker = tenant.sharing(http, stateKey);
    const deadline = Deadline.start(this.#clock, within);
    const request = { operation: 'keys', method: 'GET', url, template: 'keys' } as const;
    try {
      const { status, body } = await requestProvider(this.#transport, asker, request, deadline, ENDPOINT);
      if (status === 200) {
        return body;
      }
      this.#log.report(tenant, {
        cause: 'keys',
        options: ['login.keys'],
        message: 'the address of the keys does not answer them',
        received: `status ${status}`,
      });
    } finally {
      deadline.end();
    }
    throw unusableReply(ENDPOINT);
  }
}

/** Half of the deadline of a call, so that after a failure it has time left to go on with the last good keys. */
function patienceOf({ http }: Tenant): number {
  return http.deadline / 2;
}

/** The failure of a shared fetch is reported as one of the tenant that waits for it. */
async function waitFor<T>(tenant: Tenant, deadline: Deadline, shared: Promise<T>): Promise<T> {
  deadline.tenant = tenant.key;
  try {
    return await deadline.race(shared);
  } catch (error) {
    if (!isExhibitorError(error) || error.tenant === undefined || error.tenant === tenant.key) {
      throw error;
    }
    const { code, message, status, retryAfterMs, attempts } = error;
    throw new ExhibitorError(code, message, { tenant: tenant.key, status, retryAfterMs, attempts });
  }
}
