import { Inject, Injectable } from '@nestjs/common';
import { ConfigurationError } from '../errors/configuration.error.js';
import { isSecure, OwnCookies } from '../browser/cookies.js';
import type { HttpContext } from '../browser/http-context.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import { unverified } from '../oidc/verify-signature.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../config/check-options.js';
import type { SessionMode } from '../config/exhibitor-options.interface.js';
import { CLOCK_MARGIN, EndedLogins } from './ended-logins.service.js';
import { Sealer } from '../store/sealer.service.js';
import type { Tenant } from '../config/tenant.js';
import { Clock } from '../call/clock.js';
import { IdentityCookie } from './identity-cookie.service.js';
import { callPassport, readHostUser, type SessionState } from './request-user.js';
import { parseIdentity, personOf } from './stored-identity.js';

/** Largest sealed ID token, in bytes: proxies accept header lines of 8 kB, and it becomes a part of an address. */
const MAX_ID_TOKEN = 2_000;

/** How long a login lasts that the same person replaced by a new one, in ms: requests are under way. */
const GRACE = 60_000;

/** A login that the browser carries: a new one replaces it, a logout ends it. */
interface CarriedLogin {
  /** Of its identity. */
  id: string;
  /** Its end, in ms since 1970. */
  endsAt: number;
  /** See {@link personOf}. */
  person: string;
}

export interface NewLogin {
  identity: ExhibitorIdentity;
  idToken: string;
  /** Those at its tenant when this one was started: a `form_post` from another site brings no cookie with `SameSite=Lax`. */
  former: readonly CarriedLogin[];
}

/** A login that a logout ends at the provider, with its ID token, if that was kept. */
export type Departure = Pick<NewLogin, 'identity'> & Partial<Pick<NewLogin, 'idToken'>>;

/**
 * Keeps the identity of a login in the cookie or by the host, and ends it. With `endSession` it keeps the ID token too, for the logout
 * at the provider: sealed together with what names its login, in a cookie of its own.
 */
@Injectable()
export class IdentitySession {
  /** Where logins are kept; nowhere with bearer tokens alone. */
  readonly #mode: SessionMode | undefined;
  /** Longest time that a login lives, in ms. */
  readonly #longest: number;
  readonly #cookies: OwnCookies;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(IdentityCookie) private readonly cookie: IdentityCookie,
    @Inject(EndedLogins) private readonly ended: EndedLogins,
    @Inject(Sealer) private readonly sealer: Sealer,
    @Inject(Clock) private readonly clock: Clock,
  ) {
    this.#mode = settings.session.find((mode) => mode !== 'bearer');
    this.#longest = settings.cookies.absoluteTtl;
    this.#cookies = new OwnCookies(settings.cookies);
  }

  /** The logins that this browser carries, expired ones included; of one tenant where a key is given. */
  async carriedLogins(http: HttpContext, tenantKey?: string): Promise<CarriedLogin[]> {
    const user = this.#mode === 'host' ? readHostUser(http) : undefined;
    // The identity of a host, or of an ID token, may have no end.
    const latest = this.clock.epochMs() + this.#longest;
    const others = [(await this.#readIdToken(http))?.identity, user]
      .filter((one) => one !== undefined)
      .map((identity) => ({ identity, endsAt: Math.min(identity.expiresAt, latest) }));
    const carried = [...others, ...(await this.cookie.readAll(http))]
      .filter(({ identity: { tenant } }) => tenant === (tenantKey ?? tenant))
      .map(({ identity, endsAt }) => ({ id: identity.id, endsAt, person: personOf(identity) }));
    // An identity and its ID token are one login.
    return [...new Map(carried.map((one) => [one.id, one])).values()];
  }

  /**
   * Keeps the identity of a new login, then ends those at its tenant that it replaces: of another person at once, of the same person
   * soon, so that requests that are under way end well.
   *
   * @param storeIdentity keeps it with `session: 'host'`
   */
  async establish(
    http: HttpContext,
    tenant: Tenant,
    login: NewLogin,
    storeIdentity: (identity: ExhibitorIdentity) => void | Promise<void>,
  ): Promise<SessionState> {
    const { identity, former } = login;
    const mode = this.#mode;
    if (mode === undefined) {
      throw new ConfigurationError([
        { path: 'session', expected: "'bearer' has no login: add 'cookie' or 'host'" },
      ]);
    }
    // Read before: Passport's `logIn` replaces `request.user`.
    const replaced = [...former, ...(await this.carriedLogins(http, tenant.key))];
    if (mode === 'host') {
      await storeIdentity(identity);
    } else {
      await this.cookie.write(http, tenant, identity);
    }
    // After the identity was stored: a login that fails leaves no ID token.
    await this.#keepIdToken(http, tenant, login);
    await this.#end(replaced, personOf(identity));
    return { identity, tenant, mode };
  }

  /**
   * The user of the browser, also one who was idle for so long that the identity has expired, or that only the ID token is left; unless
   * a logout ended the login before. Not compared with its tenant, which may be slow to find.
   */
  async departing(http: HttpContext): Promise<Departure | undefined> {
    const kept = this.#mode === 'host' ? readHostUser(http) : (await this.cookie.read(http, 0))?.identity;
    const withIdToken = await this.#readIdToken(http);
    const identity = kept ?? withIdToken?.identity;
    if (identity === undefined || (await this.ended.has(identity, identity.registration ?? ''))) {
      return undefined;
    }
    return { identity, ...(withIdToken?.identity.id === identity.id && { idToken: withIdToken.idToken }) };
  }

  /**
   * Removes identity, ID token and selections, and ends the login, so that copies of the identity are worth nothing. It asks for no
   * tenant: a logout must not fail because the tenant cannot be found.
   *
   * @param removeIdentity removes it with `session: 'host'`
   */
  async forget(http: HttpContext, removeIdentity: () => void | Promise<void>): Promise<void> {
    this.#clearCookies(http);
    await this.#end(await this.carriedLogins(http));
    if (this.#mode === 'host') {
      await removeIdentity();
    }
    http.request.user = undefined;
  }

  /** Removes the identity that {@link establish} has just kept, and ends its login. */
  async takeBack(http: HttpContext, identity: ExhibitorIdentity): Promise<void> {
    this.#clearCookies(http);
    await this.ended.end(identity.id);
    if (this.#mode === 'host') {
      // A host without Passport keeps an identity that has ended.
      await callPassport(http, 'logOut', '').catch(() => undefined);
    }
    http.request.user = undefined;
  }

  #clearCookies(http: HttpContext): void {
    for (const cookie of ['identity', 'id-token', 'selection'] as const) {
      this.#cookies.clearAll(http, cookie);
    }
  }

  /** The ID token that this browser carries, with the identity that it was kept for, as far as a logout needs it. */
  async #readIdToken(http: HttpContext): Promise<Required<Departure> | undefined> {
    for (const { value, secure } of this.#cookies.received(http, 'id-token')) {
      const content: Record<string, unknown> = Object(await this.sealer.open('id-token', value));
      const idToken = String(content['idToken']);
      const { iss: issuer, sub: subject } = unverified(idToken, 'claims');
      const identity = parseIdentity({ issuer, subject, email: '', ...content });
      if (identity !== undefined && secure === isSecure(identity.redirectUri)) {
        return { identity, idToken };
      }
    }
    return undefined;
  }

  /** Replaces the ID token of the former login. One that is too large is not kept. */
  async #keepIdToken(http: HttpContext, { login }: Tenant, { identity, idToken }: NewLogin): Promise<void> {
    this.#cookies.clearAll(http, 'id-token');
    if (login?.endSession !== true) {
      return;
    }
    const { id, tenant, clientId, redirectUri } = identity;
    const content = { id, tenant, clientId, redirectUri, idToken };
    const sealed = await this.sealer.seal('id-token', content, this.#longest + CLOCK_MARGIN);
    if (sealed.length <= MAX_ID_TOKEN) {
      const attributes = { secure: isSecure(login.redirectUri) };
      this.#cookies.set(http, 'id-token', sealed, attributes, this.#longest);
    }
  }

  /** @param successor person who has logged in anew, whose former logins end a minute later */
  async #end(logins: readonly CarriedLogin[], successor?: string): Promise<void> {
    const later = this.clock.epochMs() + GRACE;
    const end = ({ id, endsAt, person }: CarriedLogin): Promise<void> =>
      this.ended.end(id, endsAt, person === successor ? later : 1);
    await Promise.all(logins.map(end));
  }
}
