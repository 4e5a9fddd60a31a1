import { HttpException, Injectable } from '@nestjs/common';
import type { ExhibitorError } from '../errors/exhibitor.error.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { LoginFailedError } from '../errors/login-failed.error.js';
import type { HttpContext } from '../browser/http-context.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import type { StartedLogin } from '../login/login.interface.js';
import type { FoundIdentity } from '../login/identity.js';
import { setUser } from '../login/request-user.js';
import { isOverHttp, type Results } from './execution-context.js';
import { callPassport } from './passport.js';
import type { Place } from './refusals.js';
import { DECIDE, neverSettle, PLACE, requirePerson, RouteGuard, SERVICES } from './route-guard.js';

/**
 * Finishes a login: on a GET route for `code`, on a POST route for `form_post`. Sets `request.user`, stores the identity and
 * runs the handler. Every refusal is 401 `login_failed` with a `reason`, unless `onLoginFailed` answers it. A page that a browser loads
 * ahead is 503, and HEAD 204: neither spends the login.
 *
 * @example
 * @Get('auth/callback') @UseGuards(ExhibitorCallbackGuard) @Redirect('/', 303)
 * callback(@CurrentIdentity() identity: ExhibitorIdentity) { return { url: identity.returnTo ?? '/' }; }
 */
@Injectable()
export class ExhibitorCallbackGuard extends RouteGuard {
  /** @internal */
  protected override async [DECIDE](http: HttpContext): Promise<Results> {
    await requirePerson(http);
    const { log, login } = this[SERVICES];
    try {
      const found = await login.finish(http, {
        getPath: () => this.getCallbackPath(http),
        storeIdentity: (identity) => this.storeIdentity(http, identity),
      });
      return await this.#welcome(http, found);
    } catch (error) {
      if (!isExhibitorError(error)) {
        throw error;
      }
      // An override may answer it in its own words.
      log.reportMistake(error);
      await this.onLoginFailed(http, error);
      return neverSettle();
    }
  }

  /** The identity is kept. Where `onLoggedIn` of the host fails, it is taken back. */
  async #welcome(http: HttpContext, found: FoundIdentity): Promise<Results> {
    const identity = setUser(http, found);
    const tenant = found.tenant.key;
    try {
      await this.onLoggedIn(http, identity);
    } catch (error) {
      const { log, logout } = this[SERVICES];
      // A host without Passport keeps an identity that has ended.
      await logout.takeBack(http, found.identity, () =>
        callPassport(http, 'logOut', '').catch(() => undefined),
      );
      const option = `${this.constructor.name}.onLoggedIn`;
      const place = { option, key: tenant };
      throw log.hostError(place, error, { code: 'service_unavailable', message: `${option} failed` });
    }
    return { identity, tenant, eventId: identity.eventId };
  }

  /** Leads a person away from the address of the callback, which has the code, also where a step of the host has thrown. */
  protected override async onFailure(http: HttpContext, error: unknown): Promise<never> {
    if (this.#isForPerson(http)) {
      return this.#leadToPage(http, isExhibitorError(error) ? error : this.#logged(error));
    }
    return super.onFailure(http, error);
  }

  #isForPerson(http: HttpContext): boolean {
    return isOverHttp(http) && this[SERVICES].pages.isFor(http);
  }

  /** Logs what a step of the host has thrown, as Nest would, which sees no error here. */
  #logged(thrown: unknown): ExhibitorError {
    return this[SERVICES].log.hostError({ option: this.constructor.name }, thrown);
  }

  /** To the page `failed` of `routes`; a GET also brings the cookies that a form from another site lacks. */
  async #leadToPage(http: HttpContext, error: ExhibitorError): Promise<never> {
    const { login, pages } = this[SERVICES];
    const started = await login.startedOf(http);
    const routes = await pages.routesFor(started?.tenant ?? (await this.#tenantOrNone(http)));
    const query = { ...toldOf(error), login: started?.state };
    http.redirect(routes?.urlOf('failed', query) ?? pages.addresses.beside(http, 'failed', query), 303);
    return neverSettle();
  }

  /** The tenant that the request names; `undefined` where it is not found: the page is then beside the callback. */
  async #tenantOrNone(http: HttpContext): Promise<string | undefined> {
    try {
      return await this.getTenant(http);
    } catch {
      return undefined;
    }
  }

  /** Path that the provider called. Override it behind a proxy that removes a prefix of the path. */
  protected getCallbackPath(http: HttpContext): string | Promise<string> {
    return http.target.pathname;
  }

  /**
   * Keeps the identity with `session: 'host'`, all of its members. By default calls and awaits Passport's `request.logIn()`, which gives
   * the session a new id; fails with `configuration_invalid` where there is none. An override starts with a new session id too: one
   * that was planted before the login must be worth nothing (session fixation). The host then sets `request.user` at each request.
   *
   * @example
   * protected override async storeIdentity({ request }: HttpContext, identity: ExhibitorIdentity): Promise<void> {
   *   const { session } = request as Request; // of Express, with express-session
   *   await new Promise<void>((resolve, reject) =>
   *     session.regenerate((error) => (error ? reject(error) : resolve())),
   *   );
   *   Object.assign((request as Request).session, { user: identity });
   * }
   */
  protected storeIdentity(http: HttpContext, identity: ExhibitorIdentity): void | Promise<void> {
    return callPassport(http, 'logIn', 'ExhibitorCallbackGuard.storeIdentity', identity);
  }

  /**
   * The login has ended well, and its identity is kept and is `request.user`: the place to create or update the user's row. If it throws,
   * the identity is removed and its login ended, what was thrown is logged with its stack, and `onLoginFailed` is called. By default, the
   * callback then fails with 500, or with the `HttpException` thrown. With `routes`, a person sees the page `failed` instead: of
   * `not_authorized` after an `HttpException` with 401 or 403, else with 500.
   *
   * @example
   * protected override async onLoggedIn(_http: HttpContext, { issuer, subject, email }: ExhibitorIdentity): Promise<void> {
   *   await this.users.upsert({ issuer, subject, email });
   * }
   */
  protected onLoggedIn(_http: HttpContext, _identity: ExhibitorIdentity): void | Promise<void> {}

  /**
   * The login failed: refused (`login_failed`), the provider is slow or down (503, 504), an option is wrong, or a function of the options
   * threw, or `onLoggedIn`: that has a `cause`, what was thrown, whatever its `code`. It was logged before. By default, with `routes`,
   * leads a person to their page `failed`, and else throws the error, which is answered by its status; one of the host by 500, or by the
   * `HttpException` thrown. May end in `redirect`; if it returns, it has sent the reply.
   *
   * @example
   * protected override async onLoginFailed(http: HttpContext, error: ExhibitorError): Promise<void> {
   *   const { eventId = '', returnTo = '/' } = (await this.getStartedLogin(http)) ?? {};
   *   const query = new URLSearchParams({ code: error.code, eventId, returnTo });
   *   return this.redirect(http, `/login-failed?${query}`);
   * }
   */
  protected onLoginFailed(http: HttpContext, error: ExhibitorError): void | Promise<void> {
    if (this.#isForPerson(http)) {
      return this.#leadToPage(http, error);
    }
    throw error;
  }

  /**
   * The login that this callback belongs to: its tenant, event and return address; `undefined` where its `state` does not open. The login
   * may be over, used before, or of another browser, so treat it as a part of the address. For `onLoginFailed`.
   */
  protected getStartedLogin(http: HttpContext): StartedLogin | undefined | Promise<StartedLogin | undefined> {
    return this[SERVICES].login
      .startedOf(http)
      .then((login) => login && { tenant: login.tenant, eventId: login.eventId, returnTo: login.returnTo });
  }

  /** Not the address of this request, which has the code. @internal */
  protected override async [PLACE](http: HttpContext): Promise<Place> {
    const { eventId, returnTo } = (await this.getStartedLogin(http)) ?? {};
    return { eventId, returnTo };
  }
}

/** What the page `failed` is told. A fault of the host has no code of its own; a person whom the host refuses is not authorized. */
function toldOf(error: ExhibitorError): { code: string; reason?: string | undefined } {
  const { code, cause, isOfHost } = error;
  if (isOfHost !== true) {
    return { code, reason: error instanceof LoginFailedError ? error.reason : undefined };
  }
  return cause instanceof HttpException && [401, 403].includes(cause.getStatus())
    ? { code: 'login_failed', reason: 'not_authorized' }
    : { code: 'configuration_invalid' };
}
