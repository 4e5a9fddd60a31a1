import { createHash } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { isRecord } from '../model/json-values.js';
import { SharedValues } from '../store/shared-values.service.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import { timedToken, type TimedToken } from './held-token.js';
import { HEADER_SAFE } from './token-reply.js';

const KIND = 'token';

/** A token in the shared store. Times are in ms since 1970, the only clock that processes share. */
interface SharedToken {
  accessToken: string;
  scope?: string;
  lifetime: number;
  expiresAt: number;
}

/**
 * Tokens that the processes of a host share through its `store`. The key is made of token URL, client, scope and a
 * fingerprint of the secret: a process without the secret finds no token, and a new secret leads to a new token.
 */
@Injectable()
export class SharedTokens {
  readonly #values: SharedValues;
  readonly #clock: Clock;

  constructor(@Inject(SharedValues) values: SharedValues, @Inject(Clock) clock: Clock) {
    this.#values = values;
    this.#clock = clock;
  }

  /** A token of another process that need not be renewed yet. `unlike` is the text of the token to replace. */
  async find(tenant: Tenant, secret: string, unlike: string | undefined): Promise<TimedToken | undefined> {
    if (!this.#values.enabled) {
      return undefined;
    }
    const shared = parseShared(await this.#values.get(KIND, nameOf(tenant, secret)));
    if (shared === undefined || shared.accessToken === unlike) {
      return undefined;
    }
    const left = shared.expiresAt - this.#clock.epochMs();
    const timed = timedToken(shared, this.#clock.now() + left, this.#clock);
    return this.#clock.now() < timed.renewAt ? timed : undefined;
  }

  /** Shares a token with other processes. */
  async keep(tenant: Tenant, secret: string, timed: TimedToken, lifetime: number): Promise<void> {
    const left = timed.expiresAt - this.#clock.now();
    if (!this.#values.enabled || left <= 0) {
      return;
    }
    const { accessToken, scope } = timed.token;
    const expiresAt = this.#clock.epochMs() + left;
    const shared: SharedToken = { accessToken, scope, lifetime, expiresAt };
    await this.#values.set(KIND, nameOf(tenant, secret), shared, left);
  }
}

function nameOf(tenant: Tenant, secret: string): string {
  const fingerprint = createHash('sha256').update(secret).digest('base64url');
  return JSON.stringify([tenant.tokenUrl, tenant.clientId, tenant.scope, fingerprint]);
}

function parseShared(value: unknown): SharedToken | undefined {
  if (!isRecord(value)) {
    return undefined;
  }
  const { accessToken, scope, lifetime, expiresAt } = value;
  if (typeof accessToken !== 'string' || !HEADER_SAFE.test(accessToken)) {
    return undefined;
  }
  if (typeof lifetime !== 'number' || typeof expiresAt !== 'number') {
    return undefined;
  }
  return { accessToken, scope: typeof scope === 'string' ? scope : undefined, lifetime, expiresAt };
}
