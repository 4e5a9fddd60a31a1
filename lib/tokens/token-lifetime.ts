import type { Clock } from '../call/clock.js';

/** Lifetime in ms where `expires_in` is missing: the service documents 3600 s. */
const DEFAULT_LIFETIME = 3_600_000;
const LONGEST_LIFETIME = 86_400_000;
const WIDEST_EARLY_WINDOW = 60_000;
const NUMBER = /^[+-]?\d+(?:\.\d+)?$/;

/**
 * Lifetime of a token in ms. A missing or unusable `expires_in` counts as the documented default; zero or a negative value
 * as 0: the token serves only the call that fetched it. At most 24 h.
 */
export function lifetimeOf(expiresIn: unknown): number {
  const isNumber =
    typeof expiresIn === 'string' ? NUMBER.test(expiresIn.trim()) : typeof expiresIn === 'number';
  const seconds = isNumber ? Number(expiresIn) : Number.NaN;
  return Number.isNaN(seconds) ? DEFAULT_LIFETIME : Math.min(Math.max(0, seconds * 1000), LONGEST_LIFETIME);
}

/**
 * How long before its end a token is renewed, in ms: 60 s or 10 % of its lifetime, whichever is less, minus up to half of it
 * at random, so that processes that started together do not renew together.
 *
 * @param random from 0 to 1
 */
export function earlyWindow(lifetime: number, random: number): number {
  return Math.min(WIDEST_EARLY_WINDOW, lifetime / 10) * (1 - random / 2);
}

/** A client-credentials access token of a tenant. */
export interface AccessToken {
  /** Sent as `Authorization: Bearer <accessToken>`; never log it. */
  readonly accessToken: string;
  readonly tokenType: 'Bearer';
  /** Granted scope; the requested one where the reply names none (RFC 6749 §5.1). */
  readonly scope: string | undefined;
  /** End of the lifetime, by this machine's clock. */
  readonly expiresAt: Date;
}

export interface GrantedToken {
  accessToken: string;
  scope?: string;
  /** In ms. It starts when the request is sent: the token may be that old when the reply arrives. */
  lifetime: number;
  /** When it was requested, in ms of {@link Clock.now}. For a token of another process, as far as the clocks of both agree. */
  requestedAt: number;
  /** It came from the shared store. */
  isShared: boolean;
}

/** A token with its times, in ms of {@link Clock.now}. Each tenant keeps one: what can be computed is no field. */
export class TimedToken {
  readonly accessToken: string;
  readonly scope: string | undefined;
  readonly requestedAt: number;
  readonly expiresAt: number;
  readonly isShared: boolean;
  /** Start of its early window. */
  readonly renewAt: number;
  /** End of the lifetime in ms since 1970. */
  readonly #endsAt: number;

  constructor({ accessToken, scope, lifetime, requestedAt, isShared }: GrantedToken, clock: Clock) {
    this.accessToken = accessToken;
    this.scope = scope;
    this.requestedAt = requestedAt;
    this.expiresAt = requestedAt + lifetime;
    this.isShared = isShared;
    this.renewAt = this.expiresAt - earlyWindow(lifetime, clock.random());
    this.#endsAt = Math.round(clock.epochMs() + this.expiresAt - clock.now());
  }

  /** The token as hosts get it. */
  toAccessToken(): AccessToken {
    const { accessToken, scope } = this;
    return { accessToken, tokenType: 'Bearer', scope, expiresAt: new Date(this.#endsAt) };
  }
}
