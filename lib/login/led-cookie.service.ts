import { Inject, Injectable } from '@nestjs/common';
import { isSecure, OwnCookies } from '../browser/cookies.js';
import type { HttpContext } from '../browser/http-context.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../config/check-options.js';
import { ProblemLog } from '../config/problems/problem-log.service.js';
import type { Tenant } from '../config/tenant.js';

/** Within this time after a login, a browser without an identity is not led to the login again, in ms. */
const TTL = 30_000;

/**
 * Tells that a browser comes back from a login to which a guard led it. One that still has no identity would be led there for ever: it
 * refuses our cookies, or the host keeps the identity in part.
 */
@Injectable()
export class LedCookie {
  readonly #cookies: OwnCookies;
  readonly #keepsCookie: boolean;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(ProblemLog) private readonly log: ProblemLog,
  ) {
    this.#cookies = new OwnCookies(settings.cookies);
    this.#keepsCookie = settings.session.includes('cookie');
  }

  set(http: HttpContext, redirectUri: string): void {
    this.#cookies.set(http, 'led', '1', { secure: isSecure(redirectUri) }, TTL);
  }

  clear(http: HttpContext): void {
    this.#cookies.clearAll(http, 'led');
  }

  /** Removes the cookie of a browser that has no identity. Returns whether there was one: what the browser lacks is then logged. */
  take(http: HttpContext, tenant: Tenant): boolean {
    const secure = isSecure(tenant.login?.redirectUri);
    if (this.#cookies.read(http, 'led', secure) === undefined) {
      return false;
    }
    this.clear(http);
    const message = `a browser comes back from its login, and ${this.#missing(http)}: it is shown a page and not led to the login again`;
    this.log.report(tenant, { cause: 'led', options: [], message, isUnverified: true });
    return true;
  }

  #missing(http: HttpContext): string {
    if (!this.#keepsCookie) {
      return (
        'has no request.user that this guard accepts: the session of the host must keep all of its members, and the browser send its ' +
        'cookie, which is not sent over http where it is secure; or the login has expired or ended'
      );
    }
    return this.#cookies.received(http, 'identity').length === 0
      ? 'sends no identity cookie: it refuses the cookie, or another host name than that of login.redirectUri set it'
      : 'its identity cookie is not accepted: it does not open, has expired or ended, or is of another tenant (with tenants by path, login.redirectUri names its tenant)';
  }
}
