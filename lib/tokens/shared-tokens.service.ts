import { Inject, Injectable } from '@nestjs/common';
import { TokenRejectedError } from '../errors/token-rejected.error.js';
import { digestOf } from '../model/digest.js';
import { isRecord } from '../model/json-values.js';
import { SharedValues } from '../store/shared-values.service.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import { TimedToken, type Replacement } from './held-token.js';
import type { Refusal } from './refusal.js';
import { earlyWindow } from './token-lifetime.js';
import { HEADER_SAFE } from './token-reply.js';

/** Kind of tokens in the store, and on `nestjs-exhibitor:store`. */
export const TOKEN_KIND = 'token';
const REFUSAL_KIND = 'token-refusal';

/** A token in the shared store. Times are in ms since 1970, the only clock that processes share. */
interface SharedToken {
  accessToken: string;
  scope?: string;
  lifetime: number;
  requestedAt: number;
  /** Fingerprint of the refused token that it replaces: it is newer than that refusal, whatever the clocks say. */
  refused?: string;
}

/** A token of another process. */
export interface StoredToken {
  readonly timed: TimedToken;
  /** Whether it can be used in place of the token to replace. */
  readonly isUsable: boolean;
}

/** A permanent refusal in the shared store. */
interface SharedRefusal {
  oauthError: string;
  description?: string;
  status?: number;
  at: number;
  until: number;
}

/**
 * Tokens and permanent refusals that the processes of a host share through its `store`. The name is made of token URL,
 * client, scope and a fingerprint of the secret: a process without the secret finds nothing, and a new secret leads to a
 * new token at once.
 */
@Injectable()
export class SharedTokens {
  readonly #values: SharedValues;
  readonly #clock: Clock;

  constructor(@Inject(SharedValues) values: SharedValues, @Inject(Clock) clock: Clock) {
    this.#values = values;
    this.#clock = clock;
  }

  /** The stored token. `read`: `get` for the first look, `look` for those that follow. */
  async token(
    name: string,
    replacement: Replacement,
    read: 'get' | 'look',
  ): Promise<StoredToken | undefined> {
    const found = await this.#values.read(TOKEN_KIND, name);
    if (found !== undefined && read === 'get') {
      this.#values.tell(TOKEN_KIND, found.value === undefined ? 'miss' : 'hit');
    }
    const shared = parseToken(found?.value);
    if (shared === undefined) {
      return undefined;
    }
    const requestedAt = this.#fromEpoch(shared.requestedAt);
    const timed = new TimedToken({ ...shared, requestedAt, isShared: true }, this.#clock);
    return { timed, isUsable: this.#isUsable(timed, shared.refused, replacement) };
  }

  /** Shares a token with other processes. */
  async keepToken(name: string, timed: TimedToken, { text, refusedAt }: Replacement): Promise<void> {
    const left = timed.expiresAt - this.#clock.now();
    if (left <= 0) {
      return;
    }
    const { accessToken, scope, lifetime } = timed;
    const refused = refusedAt === undefined || text === undefined ? undefined : digestOf(text);
    const shared: SharedToken = {
      accessToken,
      scope,
      lifetime,
      requestedAt: this.#toEpoch(timed.requestedAt),
      refused,
    };
    await this.#values.set(TOKEN_KIND, name, shared, left);
  }

  /** Removes the stored token, which the service refused. */
  dropToken(name: string): Promise<void> {
    return this.#values.delete(TOKEN_KIND, name);
  }

  /** The refusal that another process got, unless it was shared before `forgivenAt`. */
  async refusal(
    name: string,
    tenant: Tenant,
    { forgivenAt = Number.NEGATIVE_INFINITY }: Replacement,
  ): Promise<Refusal | undefined> {
    const shared = parseRefusal((await this.#values.read(REFUSAL_KIND, name))?.value);
    if (shared === undefined || this.#fromEpoch(shared.at) <= forgivenAt) {
      return undefined;
    }
    this.#values.tell(REFUSAL_KIND, 'hit');
    const { oauthError, description, status, until } = shared;
    const error = new TokenRejectedError(oauthError, description, {
      tenant: tenant.key,
      status,
      attempts: 0,
    });
    return { error, until: this.#fromEpoch(until) };
  }

  /** Shares a permanent refusal for as long as this process remembers it. */
  async keepRefusal(name: string, { error, until }: Refusal): Promise<void> {
    const { oauthError, oauthErrorDescription: description, status } = error;
    const now = this.#clock.now();
    if (until <= now) {
      return;
    }
    const shared: SharedRefusal = {
      oauthError,
      description,
      status,
      at: this.#toEpoch(now),
      until: this.#toEpoch(until),
    };
    await this.#values.set(REFUSAL_KIND, name, shared, until - now);
  }

  #isUsable(timed: TimedToken, refused: string | undefined, { text, refusedAt }: Replacement): boolean {
    const isSame = timed.accessToken === text;
    const isEnding = this.#clock.now() >= timed.expiresAt - earlyWindow(timed.lifetime, 1);
    if (isSame || isEnding) {
      return false;
    }
    if (refusedAt === undefined) {
      return true;
    }
    const replacesSame = text !== undefined && refused === digestOf(text);
    return replacesSame || timed.requestedAt > refusedAt;
  }

  #fromEpoch(ms: number): number {
    return this.#clock.now() + ms - this.#clock.epochMs();
  }

  #toEpoch(ms: number): number {
    return this.#clock.epochMs() + ms - this.#clock.now();
  }
}

/** Name of what a client shares, by what only a holder of its secret knows. */
export function sharedName(tenant: Tenant, secretText: string): string {
  return JSON.stringify([tenant.tokenUrl, tenant.clientId, tenant.scope, digestOf(secretText)]);
}

/** Name of the work that replaces a token: see `SharedWork.name`. */
export function workName(name: string, { text }: Replacement): string {
  return text === undefined ? name : `${name}:${digestOf(text)}`;
}

function parseToken(value: unknown): SharedToken | undefined {
  if (!isRecord(value)) {
    return undefined;
  }
  const { accessToken, scope, lifetime, requestedAt, refused } = value;
  if (typeof accessToken !== 'string' || !HEADER_SAFE.test(accessToken)) {
    return undefined;
  }
  if (typeof lifetime !== 'number' || typeof requestedAt !== 'number') {
    return undefined;
  }
  return { accessToken, scope: textOf(scope), lifetime, requestedAt, refused: textOf(refused) };
}

function parseRefusal(value: unknown): SharedRefusal | undefined {
  if (!isRecord(value)) {
    return undefined;
  }
  const { oauthError, description, status, at, until } = value;
  if (typeof oauthError !== 'string' || typeof at !== 'number' || typeof until !== 'number') {
    return undefined;
  }
  const known = typeof status === 'number' ? status : undefined;
  return { oauthError, description: textOf(description), status: known, at, until };
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
