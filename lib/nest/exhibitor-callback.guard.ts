import { Injectable, type ExecutionContext } from '@nestjs/common';
import { type ExhibitorError } from '../errors/exhibitor.error.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import type { HttpContext } from '../browser/http-context.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import type { StartedLogin } from '../login/pending-login.js';
import { callPassport, setUser } from '../login/request-user.js';
import { keepResults } from './execution-context.js';
import { neverSettle, RouteGuard } from './route-guard.js';

/** The login that a callback belongs to, once its state was matched. */
const startedLogins = new WeakMap<ExecutionContext, StartedLogin>();

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
  /** Finishes the login; called by Nest. */
  override canActivate(context: ExecutionContext): boolean | Promise<boolean> {
    return RouteGuard.runLogin(this, context, async (http) => {
      try {
        const session = await RouteGuard.servicesOf(this).login.finish(http, {
          getPath: () => this.getCallbackPath(http),
          onMatched: (started) => void startedLogins.set(context, started),
          storeIdentity: (identity) => this.storeIdentity(http, identity),
        });
        const identity = setUser(http, session);
        const tenant = session.tenant.key;
        keepResults(context, http.request, { identity, tenant, eventId: identity.eventId });
      } catch (error) {
        if (!isExhibitorError(error)) {
          throw error;
        }
        // An override may answer it in its own words.
        RouteGuard.servicesOf(this).log.reportMistake(error);
        await this.onLoginFailed(error, context);
        await neverSettle();
      }
    });
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
   * The login failed: refused (`login_failed`), or the provider is slow or down (503, 504). It was logged before. By default throws the error, which
   * is answered by its status. If it returns, it has sent the reply. May be async.
   *
   * @example
   * protected override onLoginFailed(error: ExhibitorError, context: ExecutionContext): void {
   *   const { eventId = '', returnTo = '/' } = this.getStartedLogin(context) ?? {};
   *   this.redirect(context, `/login-failed?${new URLSearchParams({ code: error.code, eventId, returnTo })}`);
   * }
   */
  protected onLoginFailed(error: ExhibitorError, _context: ExecutionContext): void | Promise<void> {
    throw error;
  }

  /** Answers 303 to a path or a URL, on Express and Fastify. Only for `onLoginFailed`. The URL must be ASCII. */
  protected redirect(context: ExecutionContext, url: string): void {
    RouteGuard.servicesOf(this).adapter.redirect(context.switchToHttp().getResponse(), 303, url);
  }

  /**
   * The login that this callback belongs to: its tenant, event and return address. `undefined` where the state matches none:
   * the login was finished before, has expired, was replaced by newer ones, or never was. Only for `onLoginFailed`.
   */
  protected getStartedLogin(context: ExecutionContext): StartedLogin | undefined {
    return startedLogins.get(context);
  }
}
