import { Inject, Injectable } from '@nestjs/common';
import {
  cookieNames,
  fitCookies,
  isSecure,
  receivedCookie,
  setCookie,
  type CookieNames,
} from '../http/cookies.js';
import type { HttpContext } from '../http/http-context.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import type { SessionMode } from '../options/exhibitor-options.interface.js';
import type { ExhibitorSettings } from '../options/exhibitor-settings.js';
import { Sealer } from '../store/sealer.service.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';

interface Extendable {
  identity: Pick<ExhibitorIdentity, 'id' | 'expiresAt'>;
  tenant: Tenant;
  mode: SessionMode;
  endsAt?: number;
}

/**
 * Keeps users logged in while they are active, where `cookies.absoluteTtl` is longer than `identityTtl`. An extension is a
 * sealed cookie of its own with the id of an identity and its new end. It contains nothing else, so that a reply that arrives
 * late undoes no selection, login or logout.
 */
@Injectable()
export class IdentityExtensions {
  readonly #cookies: ExhibitorSettings['cookies'];
  readonly #names: CookieNames;
  /** Requests whose reply sets an extension. Several guards may run for one request. */
  readonly #extended = new WeakSet<object>();

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(Sealer) private readonly sealer: Sealer,
    @Inject(Clock) private readonly clock: Clock,
  ) {
    this.#cookies = settings.cookies;
    this.#names = cookieNames(settings.cookies.name);
  }

  /**
   * The sealed extension that a request carries.
   *
   * @param secure true where the identity came in a cookie with `__Host-`: that of the extension must have it too
   */
  received(http: HttpContext, secure: boolean): string | undefined {
    return this.#isEnabled ? receivedCookie(http, this.#names.extension, secure) : undefined;
  }

  /** Extends the identity in a cookie once half of its time has passed. */
  async extend(http: HttpContext, { mode, identity, tenant, endsAt = 0 }: Extendable): Promise<void> {
    const { identityTtl, sameSite } = this.#cookies;
    const { id, expiresAt } = identity;
    if (!this.#isEnabled || mode !== 'cookie' || expiresAt >= endsAt || this.#extended.has(http.request)) {
      return;
    }
    const now = this.clock.epochMs();
    if (expiresAt - now > identityTtl / 2 || !isActivity(http)) {
      return;
    }
    this.#extended.add(http.request);
    const ttl = Math.min(identityTtl, endsAt - now);
    const sealed = await this.sealer.seal('extension', id, ttl);
    if (http.takesHeaders) {
      const attributes = { secure: isSecure(tenant.login?.redirectUri), sameSite };
      setCookie(http, this.#names.extension, sealed, attributes, ttl);
      fitCookies(http, this.#names, attributes);
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
