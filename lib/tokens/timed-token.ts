import type { Clock } from '../time/clock.js';
import type { AccessToken } from './access-token.interface.js';
import { earlyWindow } from './token-lifetime.js';

/** A token as the token endpoint granted it. */
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
  readonly lifetime: number;
  readonly requestedAt: number;
  readonly isShared: boolean;
  /** How long before its end the token is renewed, in ms. */
  readonly #early: number;
  /** End of the lifetime in ms since 1970. */
  readonly #endsAt: number;

  constructor({ accessToken, scope, lifetime, requestedAt, isShared }: GrantedToken, clock: Clock) {
    this.accessToken = accessToken;
    this.scope = scope;
    this.lifetime = lifetime;
    this.requestedAt = requestedAt;
    this.isShared = isShared;
    this.#early = Math.round(earlyWindow(lifetime, clock.random()));
    this.#endsAt = Math.round(clock.epochMs() + this.expiresAt - clock.now());
  }

  get expiresAt(): number {
    return this.requestedAt + this.lifetime;
  }

  get renewAt(): number {
    return this.expiresAt - this.#early;
  }

  /** Begin of the longest early window. The service rounds the end of a token: it may refuse one from here on. */
  get endingAt(): number {
    return this.expiresAt - earlyWindow(this.lifetime, 0);
  }

  /** The token as hosts get it. */
  toAccessToken(): AccessToken {
    const { accessToken, scope } = this;
    return Object.freeze({ accessToken, tokenType: 'Bearer', scope, expiresAt: new Date(this.#endsAt) });
  }
}
