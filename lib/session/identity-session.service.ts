import { Inject, Injectable } from '@nestjs/common';
import { ConfigurationError } from '../errors/configuration.error.js';
import { clearHeldCookies, cookieNames, isSecure, type CookieNames } from '../http/cookies.js';
import type { HttpContext } from '../http/http-context.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import type { SessionMode } from '../options/exhibitor-options.interface.js';
import type { ExhibitorSettings } from '../options/exhibitor-settings.js';
import { EndedLogins } from '../store/ended-logins.service.js';
import { Sealer } from '../store/sealer.service.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import { IdTokenCookie } from './id-token-cookie.js';
import { IdentityCookie } from './identity-cookie.service.js';
import { readHostUser, type SessionState } from './request-user.js';

/** A login that another one replaces. */
export interface FormerLogin {
  /** Of its identity. */
  id: string;
  /** Its end, in ms since 1970. */
  endsAt: number;
}

export interface NewLogin {
  identity: ExhibitorIdentity;
  idToken: string;
  /** The logins that the browser had when this one was started: the callback of another site's form brings no cookie. */
  former: readonly FormerLogin[];
}

export interface DepartingUser {
  /** Not compared with its tenant yet. */
  identity: ExhibitorIdentity;
  /** The ID token of the login, if it was kept. */
  idToken: string | undefined;
}

/** Keeps the identity of a login in the cookie or by the host, and ends it. */
@Injectable()
export class IdentitySession {
  readonly #modes: readonly SessionMode[];
  readonly #cookies: ExhibitorSettings['cookies'];
  readonly #names: CookieNames;
  readonly #idTokens: IdTokenCookie;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(IdentityCookie) private readonly cookie: IdentityCookie,
    @Inject(EndedLogins) private readonly ended: EndedLogins,
    @Inject(Sealer) sealer: Sealer,
    @Inject(Clock) private readonly clock: Clock,
  ) {
    this.#modes = settings.session;
    this.#cookies = settings.cookies;
    this.#names = cookieNames(settings.cookies.name);
    this.#idTokens = new IdTokenCookie(sealer, clock, this.#names, settings.cookies.sameSite);
  }

  /** The logins of this browser that a new one replaces. */
  async former(http: HttpContext): Promise<FormerLogin[]> {
    const user = this.#modes.includes('host') ? readHostUser(http) : undefined;
    // The identity of a host may have no end.
    const latest = this.clock.epochMs() + this.#cookies.absoluteTtl;
    const ofHost = user === undefined ? [] : [{ id: user.id, endsAt: Math.min(user.expiresAt, latest) }];
    const ofCookies = await this.cookie.readAll(http);
    return [...ofHost, ...ofCookies.map(({ identity, endsAt }) => ({ id: identity.id, endsAt }))];
  }

  /**
   * Keeps the identity of a new login, then ends those that it replaces.
   *
   * @param storeIdentity keeps it with `session: 'host'`
   */
  async establish(
    http: HttpContext,
    tenant: Tenant,
    { identity, idToken, former }: NewLogin,
    storeIdentity: (identity: ExhibitorIdentity) => void | Promise<void>,
  ): Promise<SessionState> {
    const mode = this.#modes.find((name) => name !== 'bearer');
    if (mode === undefined) {
      throw new ConfigurationError([
        { path: 'session', expected: "'bearer' has no login: add 'cookie' or 'host'" },
      ]);
    }
    const { identityTtl, absoluteTtl } = this.#cookies;
    // A cookie is sealed anew until `absoluteTtl` after the login; the identity of a host ends with its login.
    const endsAt = mode === 'cookie' ? identity.expiresAt - identityTtl + absoluteTtl : identity.expiresAt;
    // Before the new one is kept: Passport sets it as the user of the request.
    const replaced = [...former, ...(await this.former(http))];
    if (mode === 'host') {
      await storeIdentity(identity);
    } else {
      await this.cookie.write(http, tenant, identity, endsAt);
    }
    // Last: no ID token is kept of a login that fails.
    await this.#idTokens.write(http, tenant, identity.id, endsAt, idToken);
    await this.#end(replaced);
    return { identity, tenant, mode, endsAt };
  }

  /** The user of the browser, unless a logout ended the login before. Asks for no tenant, which may be slow. */
  async departing(http: HttpContext): Promise<DepartingUser | undefined> {
    const identity = this.#modes.includes('host')
      ? readHostUser(http)
      : (await this.cookie.read(http))?.identity;
    if (identity === undefined || (await this.ended.has(identity, identity.registration ?? ''))) {
      return undefined;
    }
    const idToken = await this.#idTokens.read(http, identity.id, isSecure(identity.redirectUri));
    return { identity, idToken };
  }

  /**
   * Removes identity, ID token and selections, and ends the login, so that copies of the identity are worth nothing. It asks for no
   * tenant: a logout must not fail because the tenant cannot be found.
   *
   * @param removeIdentity removes it with `session: 'host'`
   */
  async forget(http: HttpContext, removeIdentity: () => void | Promise<void>): Promise<void> {
    const { identity, idToken, selection } = this.#names;
    for (const name of [identity, idToken, selection]) {
      clearHeldCookies(http, name, this.#cookies.sameSite);
    }
    await this.#end(await this.former(http));
    if (this.#modes.includes('host')) {
      await removeIdentity();
    }
    http.request.user = undefined;
  }

  async #end(logins: readonly FormerLogin[]): Promise<void> {
    await Promise.all(logins.map(({ id, endsAt }) => this.ended.end(id, endsAt)));
  }
}
