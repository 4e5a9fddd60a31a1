import { randomBytes } from 'node:crypto';
import * as v from 'valibot';
import {
  isSecure,
  LOGIN_DIGITS,
  OwnCookies,
  type CookieAttributes,
  type OwnCookie,
} from '../browser/cookies.js';
import type { HttpContext } from '../browser/http-context.js';
import { shortDigestOf } from '../model/digest.js';
import type { ExhibitorSettings } from '../config/exhibitor-settings.js';
import type { Sealer } from '../store/sealer.service.js';
import { isHybrid, type BrowserLogin } from '../config/tenant.js';
import { normalizeReturnTo } from './return-to.js';

const pendingLogin = v.object({
  tenant: v.string(),
  /** Digest of issuer and client, see {@link providerDigest}. */
  provider: v.string(),
  state: v.string(),
  nonce: v.string(),
  verifier: v.string(),
  redirectUri: v.string(),
  responseType: v.picklist(['code', 'code id_token', 'code token id_token']),
  eventId: v.optional(v.string()),
  /** Sealed as it was given: normalized, it may be three times as long. */
  returnTo: v.optional(v.pipe(v.string(), v.transform(normalizeReturnTo))),
  /** Seconds; the smaller of the option and the parameter of this login. */
  maxAge: v.optional(v.number()),
  /** Logins at this tenant that this one replaces. */
  former: v.array(v.object({ id: v.string(), endsAt: v.number(), person: v.string() })),
});

/** A login that was started. It is sealed in a cookie of the browser, and the callback is compared with it. */
export type PendingLogin = v.InferOutput<typeof pendingLogin>;

/** Largest sealed pending login, in bytes. */
const MAX_SEALED = 2_000;

/** 256 random bits: neither state (RFC 9700 §4.7), nonce nor verifier (RFC 7636 §7.1) can be guessed. */
const random = () => randomBytes(32).toString('base64url');

/** @param digit numbers its cookie, and replaces the first character of its state, of which 250 bits are random */
export function createPendingLogin(
  start: Omit<PendingLogin, 'state' | 'nonce' | 'verifier'>,
  digit: string,
): PendingLogin {
  return { ...start, state: `${digit}${random().slice(1)}`, nonce: random(), verifier: random() };
}

/** Names the issuer and the client of a login. A digest, since all pending logins of a browser share few bytes of cookies. */
export function providerDigest({ issuer, clientId }: BrowserLogin): string {
  return shortDigestOf(JSON.stringify([issuer, clientId]));
}

/** The sealed cookies of pending logins: 16 names, for several tabs. A callback opens only the one that its state names. */
export class PendingLogins {
  readonly #cookies: OwnCookies;
  readonly #settings: ExhibitorSettings['cookies'];

  constructor(
    private readonly sealer: Sealer,
    settings: ExhibitorSettings['cookies'],
  ) {
    this.#cookies = new OwnCookies(settings);
    this.#settings = settings;
  }

  /** A digit whose cookie is free, else any; `chance` is below 1. Of tabs that start at the same moment, one may replace another. */
  chooseDigit(http: HttpContext, { redirectUri }: BrowserLogin, chance: number): string {
    const secure = isSecure(redirectUri);
    const free = LOGIN_DIGITS.filter(
      (digit) => this.#cookies.held(http, cookieOf(digit), secure) === undefined,
    );
    const digits = free.length > 0 ? free : LOGIN_DIGITS;
    return digits[Math.floor(chance * digits.length)] ?? '0';
  }

  /** Keeps a pending login. One that is too large loses its `returnTo`. */
  async keep(http: HttpContext, login: PendingLogin): Promise<void> {
    const { loginTtl } = this.#settings;
    const whole = await this.sealer.seal('login', login, loginTtl);
    const sealed =
      whole.length <= MAX_SEALED
        ? whole
        : await this.sealer.seal('login', { ...login, returnTo: undefined }, loginTtl);
    this.#cookies.set(http, cookieOf(login.state), sealed, this.#attributesOf(login), loginTtl);
  }

  async find(http: HttpContext, state: string): Promise<PendingLogin | undefined> {
    for (const { value, secure } of this.#cookies.received(http, cookieOf(state))) {
      const { output: login, success } = v.safeParse(pendingLogin, await this.sealer.open('login', value));
      // Without the check of the prefix, a sibling domain could set a login of its own (RFC 9700 §4.7).
      if (success && login.state === state && secure === isSecure(login.redirectUri)) {
        return login;
      }
    }
    return undefined;
  }

  clear(http: HttpContext, login: PendingLogin): void {
    this.#cookies.clear(http, cookieOf(login.state), this.#attributesOf(login));
  }

  /** True where the browser has sent any. */
  areSent(http: HttpContext): boolean {
    return LOGIN_DIGITS.some((digit) => this.#cookies.received(http, cookieOf(digit)).length > 0);
  }

  /** A form_post is a cross-site request, and so is each in a frame of another site: only `SameSite=None` is sent with it. */
  #attributesOf(login: PendingLogin): CookieAttributes {
    const isCrossSite = isHybrid(login) || this.#settings.sameSite === 'none';
    return { secure: isSecure(login.redirectUri), sameSite: isCrossSite ? 'none' : 'lax' };
  }
}

/** The cookie that the first character of a state names. That of a forged state may name none of ours. */
function cookieOf(state: string): OwnCookie {
  return `login-${state.slice(0, 1)}`;
}

/** The login that a callback belongs to. */
export interface StartedLogin {
  /** Key of the tenant. */
  tenant: string;
  eventId?: string;
  /** A path of this origin, percent-encoded. */
  returnTo?: string;
}
