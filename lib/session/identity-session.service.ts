import { Inject, Injectable } from '@nestjs/common';
import { ConfigurationError } from '../errors/configuration.error.js';
import { isSecure, OwnCookies } from '../http/cookies.js';
import type { HttpContext } from '../http/http-context.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import { isRecord } from '../model/json-values.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import type { SessionMode } from '../options/exhibitor-options.interface.js';
import { EndedLogins } from '../store/ended-logins.service.js';
import { Sealer } from '../store/sealer.service.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import { IdentityCookie } from './identity-cookie.service.js';
import { readHostUser, type SessionState } from './request-user.js';

/** Largest sealed ID token, in bytes: cookies of the module share a budget, and it becomes a part of an address. */
const MAX_ID_TOKEN = 2_500;

/** A login that the browser carries: a new one replaces it, a logout ends it. */
interface CarriedLogin {
  /** Of its identity. */
  id: string;
  /** Its end, in ms since 1970. */
  endsAt: number;
}

export interface NewLogin {
  identity: ExhibitorIdentity;
  idToken: string;
  /** The logins that the browser had when this one was started: a `form_post` from another site brings no cookie with `SameSite=Lax`. */
  former: readonly CarriedLogin[];
}

/**
 * Keeps the identity of a login in the cookie or by the host, and ends it. With `endSession` it keeps the ID token too, for the logout
 * at the provider: sealed together with the id of its identity, in a cookie of its own.
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

  /** The logins that this browser carries. */
  async carriedLogins(http: HttpContext): Promise<CarriedLogin[]> {
    const user = this.#mode === 'host' ? readHostUser(http) : undefined;
    // The identity of a host may have no end.
    const latest = this.clock.epochMs() + this.#longest;
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
    const replaced = [...former, ...(await this.carriedLogins(http))];
    if (mode === 'host') {
      await storeIdentity(identity);
    } else {
      await this.cookie.write(http, tenant, identity);
    }
    // After the identity was stored: a login that fails leaves no ID token.
    await this.#keepIdToken(http, tenant, login);
    await this.#end(replaced);
    return { identity, tenant, mode };
  }

  /** The user of the browser, unless a logout ended the login before. Not compared with its tenant, which may be slow to find. */
  async departing(http: HttpContext): Promise<ExhibitorIdentity | undefined> {
    const identity = this.#mode === 'host' ? readHostUser(http) : (await this.cookie.read(http))?.identity;
    if (identity === undefined || (await this.ended.has(identity, identity.registration ?? ''))) {
      return undefined;
    }
    return identity;
  }

  /**
   * Removes identity, ID token and selections, and ends the login, so that copies of the identity are worth nothing. It asks for no
   * tenant: a logout must not fail because the tenant cannot be found.
   *
   * @param removeIdentity removes it with `session: 'host'`
   */
  async forget(http: HttpContext, removeIdentity: () => void | Promise<void>): Promise<void> {
    for (const cookie of ['identity', 'id-token', 'selection'] as const) {
      this.#cookies.clearHeld(http, cookie);
    }
    await this.#end(await this.carriedLogins(http));
    if (this.#mode === 'host') {
      await removeIdentity();
    }
    http.request.user = undefined;
  }

  /** The ID token of this identity, if it was kept. */
  async idTokenOf(http: HttpContext, { id, redirectUri }: ExhibitorIdentity): Promise<string | undefined> {
    const sent = this.#cookies
      .received(http, 'id-token')
      .find(({ secure }) => secure === isSecure(redirectUri));
    const content = sent && (await this.sealer.open('id-token', sent.value));
    if (isRecord(content) && content['id'] === id && typeof content['idToken'] === 'string') {
      return content['idToken'];
    }
    return undefined;
  }

  /** Replaces the ID token of the former login. One that is too large is not kept. */
  async #keepIdToken(http: HttpContext, { login }: Tenant, { identity, idToken }: NewLogin): Promise<void> {
    this.#cookies.clearHeld(http, 'id-token');
    if (login?.endSession !== true) {
      return;
    }
    const sealed = await this.sealer.seal('id-token', { id: identity.id, idToken }, this.#longest);
    if (sealed.length <= MAX_ID_TOKEN) {
      const attributes = { secure: isSecure(login.redirectUri) };
      this.#cookies.set(http, 'id-token', sealed, attributes, this.#longest);
    }
  }

  async #end(logins: readonly CarriedLogin[]): Promise<void> {
    await Promise.all(logins.map(({ id, endsAt }) => this.ended.end(id, endsAt)));
  }
}
