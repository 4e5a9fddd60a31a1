import { Inject, Injectable } from '@nestjs/common';
import { clearCookie, cookiesNamed, heldCookies, isSecure, setCookie } from '../http/cookies.js';
import type { HttpContext } from '../http/http-context.js';
import { EXTENSION_COOKIE, trimCookies } from '../http/trim-cookies.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import type { ExhibitorSettings } from '../options/exhibitor-settings.js';
import { Sealer, type Unsealed } from '../store/sealer.service.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';

/** An identity, and the end of its login: no extension goes beyond it. */
interface Extendable {
  identity: Pick<ExhibitorIdentity, 'id' | 'expiresAt'>;
  tenant: Tenant;
  endsAt: number;
}

/**
 * Keeps users logged in while they are active, where `cookies.absoluteTtl` is longer than `identityTtl`. An extension is a
 * sealed cookie of its own with the id of an identity and its new end. It contains nothing else, so that a reply that arrives
 * late undoes no selection, login or logout.
 */
@Injectable()
export class IdentityExtensions {
  readonly #cookies: ExhibitorSettings['cookies'];
  /** Requests whose reply sets an extension. Several guards may run for one request. */
  readonly #extended = new WeakSet<object>();

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(Sealer) private readonly sealer: Sealer,
    @Inject(Clock) private readonly clock: Clock,
  ) {
    this.#cookies = settings.cookies;
  }

  /**
   * The sealed extension that a request carries.
   *
   * @param secure true where the identity came in a cookie with `__Host-`: that of the extension must have it too
   */
  received(http: HttpContext, secure: boolean): string | undefined {
    return this.#isEnabled
      ? cookiesNamed(http, EXTENSION_COOKIE).find((cookie) => cookie.secure === secure)?.value
      : undefined;
  }

  /** The id of the identity that it extends, and until when. */
  open(sealed: string): Promise<Unsealed | undefined> {
    return this.sealer.unseal('extension', sealed);
  }

  /** Extends the identity once half of its time has passed. */
  extend(http: HttpContext, extendable: Extendable): void | Promise<void> {
    if (this.#isEnabled && this.#isDue(extendable) && isActivity(http)) {
      return this.#extend(http, extendable);
    }
  }

  /** Removes the cookie, with and without its prefix, also one that this reply sets. */
  clear(http: HttpContext): void {
    for (const { secure } of heldCookies(http, EXTENSION_COOKIE)) {
      clearCookie(http, EXTENSION_COOKIE, { secure, sameSite: this.#cookies.sameSite });
    }
  }

  #isDue({ identity: { expiresAt }, endsAt }: Extendable): boolean {
    return expiresAt < endsAt && expiresAt - this.clock.epochMs() <= this.#cookies.identityTtl / 2;
  }

  async #extend(http: HttpContext, { identity, tenant, endsAt }: Extendable): Promise<void> {
    if (!http.takesHeaders || this.#extended.has(http.request)) {
      return;
    }
    const secure = isSecure(tenant.login?.redirectUri);
    this.#extended.add(http.request);
    const ttl = Math.min(this.#cookies.identityTtl, endsAt - this.clock.epochMs());
    const sealed = await this.sealer.seal('extension', identity.id, ttl);
    if (http.takesHeaders) {
      const { sameSite } = this.#cookies;
      setCookie(http, EXTENSION_COOKIE, sealed, { secure, sameSite }, ttl);
      trimCookies(http, sameSite, 'newest');
    }
  }

  get #isEnabled(): boolean {
    return this.#cookies.absoluteTtl > this.#cookies.identityTtl;
  }
}

/** Neither HEAD nor a page that a browser loads ahead shows that the user is there. Older browsers send `Purpose`. */
function isActivity(http: HttpContext): boolean {
  const purpose = `${http.header('sec-purpose')} ${http.header('purpose')}`.toLowerCase();
  return http.request.method !== 'HEAD' && !purpose.includes('prefetch');
}
