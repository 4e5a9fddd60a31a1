import * as v from 'valibot';
import { TokenRejectedError } from '../errors/token-rejected.error.js';
import type { SharedValues } from '../store/shared-values.service.js';
import type { Clock } from '../time/clock.js';
import type { RememberedRejection } from './remembered-rejection.js';
import type { ReplacedToken } from './replaced-token.js';
import { earlyWindow, TimedToken } from './token-lifetime.js';
import { HEADER_SAFE } from './token-reply.js';

/** Kind of the records in the store, and on `nestjs-exhibitor:store`. */
export const TOKEN_KIND = 'token';

const optionalText = v.fallback(v.optional(v.string()), undefined);

const recordedToken = v.object({
  accessToken: v.pipe(v.string(), v.regex(HEADER_SAFE)),
  scope: optionalText,
  lifetime: v.number(),
  requestedAt: v.number(),
  /** See {@link ReplacedToken.isReplacedBy}. */
  insteadOf: optionalText,
});

const recordedRejection = v.object({
  oauthError: v.string(),
  description: optionalText,
  status: v.fallback(v.optional(v.number()), undefined),
  at: v.number(),
  until: v.number(),
});

/** What the processes share of a client. Times are in ms since 1970, the only clock that they share. */
const tokenRecord = v.fallback(
  v.object({
    token: v.fallback(v.optional(recordedToken), undefined),
    rejection: v.fallback(v.optional(recordedRejection), undefined),
  }),
  {},
);

type TokenRecord = v.InferOutput<typeof tokenRecord>;

/** A token or a permanent rejection: of another process, or of the token endpoint. */
export type TokenAnswer =
  | { readonly kind: 'token'; readonly timed: TimedToken }
  | { readonly kind: 'rejected'; readonly rejection: RememberedRejection; readonly isShared: boolean };

/**
 * Tokens and permanent rejections in the shared store: one record for each client, see `clientName`. A rejection that has lapsed is
 * not in it, whatever the store still has.
 *
 * | the record before      | a token comes | a rejection comes           | a bad token is removed        |
 * | ---------------------- | ------------- | --------------------------- | ----------------------------- |
 * | (empty)                | the token     | the rejection               | unchanged                     |
 * | a rejection            | the token     | the former rejection stays  | (empty), where it is forgiven |
 * | a token                | the new token | both, if the token is good  | (empty), where it is that one |
 * | a token, a rejection   | the new token | both, with the new one      | (empty), where it is that one |
 */
export class TokenRecords {
  constructor(
    private readonly values: SharedValues,
    private readonly clock: Clock,
  ) {}

  /**
   * The token, where it can be used in place of the replaced one; else the rejection, unless it has lapsed or is forgiven.
   *
   * @param tenant key of the tenant, for the error of a rejection
   */
  async find(name: string, tenant: string, replaced: ReplacedToken): Promise<TokenAnswer | undefined> {
    const { token, rejection } = await this.read(name);
    if (token !== undefined) {
      const timed = this.timedOf(token);
      if (!this.isEnding(timed) && replaced.isReplacedBy(timed, token.insteadOf)) {
        return { kind: 'token', timed };
      }
    }
    if (rejection === undefined || replaced.forgives(this.fromEpoch(rejection.at))) {
      return undefined;
    }
    const { oauthError, description, status } = rejection;
    const error = new TokenRejectedError(oauthError, description, { tenant, status, attempts: 0 });
    return { kind: 'rejected', rejection: { error, until: this.fromEpoch(rejection.until) }, isShared: true };
  }

  async keepToken(name: string, timed: TimedToken, replaced: ReplacedToken): Promise<void> {
    const left = timed.expiresAt - this.clock.now();
    if (left <= 0) {
      return;
    }
    const { accessToken, scope, lifetime } = timed;
    const requestedAt = this.toEpoch(timed.requestedAt);
    const token = { accessToken, scope, lifetime, requestedAt, insteadOf: replaced.fingerprint };
    await this.values.set(TOKEN_KIND, name, { token }, left);
  }

  /** Shares a permanent rejection for as long as this process remembers it. A token that is still good stays beside it. */
  async keepRejection(name: string, { error, until }: RememberedRejection): Promise<void> {
    const now = this.clock.now();
    if (until <= now) {
      return;
    }
    const { oauthError, oauthErrorDescription: description, status } = error;
    const at = this.toEpoch(now);
    const rejection = { oauthError, description, status, at, until: this.toEpoch(until) };
    const { token } = await this.read(name);
    const tokenEnd = token === undefined ? now : this.timedOf(token).expiresAt;
    if (token !== undefined && tokenEnd > now) {
      await this.values.set(TOKEN_KIND, name, { token, rejection }, Math.max(tokenEnd, until) - now);
      return;
    }
    // A token that another process has shared meanwhile is not replaced.
    await this.values.set(TOKEN_KIND, name, { rejection }, until - now, { ifAbsent: true });
  }

  /** Removes the bad token, so that no other process takes it, or a forgiven rejection that is stored without a token. */
  async removeBad(name: string, replaced: ReplacedToken): Promise<void> {
    if (!replaced.isBad) {
      return;
    }
    const { token, rejection } = await this.read(name);
    const isForgiven = rejection !== undefined && replaced.forgives(this.fromEpoch(rejection.at));
    if (token === undefined ? isForgiven : token.accessToken === replaced.text) {
      await this.values.delete(TOKEN_KIND, name);
    }
  }

  private async read(name: string): Promise<TokenRecord> {
    const { token, rejection } = v.parse(tokenRecord, (await this.values.read(TOKEN_KIND, name))?.value);
    const isLapsed = rejection !== undefined && rejection.until <= this.clock.epochMs();
    return { token, rejection: isLapsed ? undefined : rejection };
  }

  private timedOf(token: v.InferOutput<typeof recordedToken>): TimedToken {
    const requestedAt = this.fromEpoch(token.requestedAt);
    return new TimedToken({ ...token, requestedAt, isShared: true }, this.clock);
  }

  /** True where every process would renew it at once: in the shortest early window. */
  private isEnding(timed: TimedToken): boolean {
    return this.clock.now() >= timed.expiresAt - earlyWindow(timed.lifetime, 1);
  }

  private fromEpoch(ms: number): number {
    return this.clock.now() + ms - this.clock.epochMs();
  }

  private toEpoch(ms: number): number {
    return this.clock.epochMs() + ms - this.clock.now();
  }
}
