import { HttpException, Inject, Injectable, Optional } from '@nestjs/common';
import { isDocumentRequest, isNavigation } from '../browser/fetch-metadata.js';
import type { HttpContext } from '../browser/http-context.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../config/check-options.js';
import { ProblemLog } from '../config/problems/problem-log.service.js';
import { TenantRegistry } from '../config/tenant-registry.service.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { htmlPage, pagePolicy } from './html-page.js';
import { isOfAccount, wordsFor, type PageView, type Refused } from './page-view.js';
import type { Place } from './refusals.js';
import { addressOf, RouteAddresses, type OwnRoutes } from './route-addresses.js';
import { ROUTE_SETTINGS, type RouteSettings } from './route-settings.js';

/** The pages of an application whose routes are those of the module. */
@Injectable()
export class Pages {
  readonly #sameSite: 'lax' | 'none';

  constructor(
    @Optional() @Inject(ROUTE_SETTINGS) private readonly settings: RouteSettings | undefined,
    @Inject(CHECKED_OPTIONS) { settings: { cookies } }: CheckedOptions,
    @Inject(RouteAddresses) readonly addresses: RouteAddresses,
    @Inject(TenantRegistry) private readonly tenants: TenantRegistry,
    @Inject(ProblemLog) private readonly log: ProblemLog,
  ) {
    this.#sameSite = cookies.sameSite;
  }

  get hasRoutes(): boolean {
    return this.settings !== undefined;
  }

  /** True where a person sees the reply, so that it must be a page. */
  isFor(http: HttpContext): boolean {
    return this.settings !== undefined && isDocumentRequest(http);
  }

  /** True where the browser may be led to another page. */
  mayLead(http: HttpContext): boolean {
    return this.settings !== undefined && isNavigation(http, this.#sameSite);
  }

  /** Whether a navigation without a user is led to the login. */
  get leadsToLogin(): boolean {
    return this.settings?.redirectToLogin === true;
  }

  /** The routes for the users of a tenant: of this key, else the only one. */
  async routesFor(tenantKey = this.tenants.onlyKey): Promise<OwnRoutes | undefined> {
    if (this.settings === undefined || tenantKey === undefined) {
      return undefined;
    }
    try {
      return this.addresses.of(await this.tenants.find(tenantKey));
    } catch (error) {
      // An unknown tenant, or one whose source fails: the page goes without its addresses.
      if (isExhibitorError(error)) {
        return undefined;
      }
      throw error;
    }
  }

  /**
   * Sends the page for what Nest would answer as JSON.
   *
   * @param given what a guard has kept that refused the request
   */
  async refuse(http: HttpContext, thrown: unknown, given?: Place): Promise<void> {
    const status = thrown instanceof HttpException ? thrown.getStatus() : 500;
    // An address with a wrong value is as wrong after a new login.
    const place = status === 400 ? { tenant: given?.tenant, returnTo: undefined } : given;
    const error = thrown instanceof HttpException ? thrown.cause : thrown;
    if (!isExhibitorError(error)) {
      return this.showRefusal(http, { status, code: codeOf(status) }, place);
    }
    const { code, tenant } = error;
    const reason = error.code === 'login_failed' ? error.reason : undefined;
    return this.showRefusal(http, { status, code, reason }, place, tenant);
  }

  /**
   * The page for a refusal, with the links that may help.
   *
   * @param place what the request was about. Where no guard has kept it, a new login leads back to this request
   * @param tenant its key, where the place names none
   */
  async showRefusal(
    http: HttpContext,
    refused: Refused,
    place: Place | undefined,
    tenant?: string,
  ): Promise<void> {
    const { status, code, reason } = refused;
    const found = http.request.exhibitorContext;
    const routes = await this.routesFor(place?.tenant ?? tenant ?? found?.tenant);
    const { eventId = found?.eventId, returnTo } = place ?? { returnTo: addressOf(http, routes) };
    const target = { eventId, returnTo };
    // Nobody is logged in: a page that needs no user.
    const homeUrl =
      status === 401
        ? (routes?.afterLogout ?? this.addresses.after('logout'))
        : (routes?.afterLogin ?? this.addresses.after('login'));
    return this.#show(http, {
      kind: 'failed',
      status,
      code,
      ...(reason !== undefined && { reason }),
      ...wordsFor(refused),
      ...(routes !== undefined && { loginUrl: routes.urlOf('login', target) }),
      ...(routes !== undefined &&
        isOfAccount(refused) && {
          accountUrl: routes.urlOf('login', { ...target, prompt: 'login' }),
          logout: { action: routes.urlOf('logout'), fields: {} },
        }),
      homeUrl,
    });
  }

  /** Asks which exhibitor a person acts for. */
  async showChoice(
    http: HttpContext,
    tenant: string,
    { eventId, returnTo, exhibitors }: Required<Pick<PageView, 'exhibitors'>> & Place & { eventId: string },
  ): Promise<void> {
    const routes = await this.routesFor(tenant);
    const fields = { eventId, ...(returnTo === undefined ? {} : { returnTo }) };
    return this.#show(http, {
      kind: 'choose',
      status: 200,
      code: 'exhibitor_not_selected',
      title: 'Choose an exhibitor',
      text: 'For which exhibitor do you act at this event?',
      homeUrl: routes?.afterLogin ?? this.addresses.after('login'),
      exhibitors,
      // Without routes of the tenant, the form is sent to its own address.
      form: { action: routes?.urlOf('choose') ?? '', fields },
    });
  }

  async #show(http: HttpContext, view: PageView): Promise<void> {
    const own = await this.#rendered(http, view);
    if (!http.takesHeaders) {
      return;
    }
    const mayBeFramed = this.#sameSite === 'none';
    const headers = {
      'Content-Type': 'text/html; charset=utf-8',
      'Cache-Control': 'private, no-store',
      'Referrer-Policy': 'no-referrer',
      'X-Robots-Tag': 'noindex',
      ...(!mayBeFramed && { 'X-Frame-Options': 'DENY' }),
      ...(own === undefined && { 'Content-Security-Policy': pagePolicy(mayBeFramed) }),
    };
    Object.entries(headers).forEach(([name, value]) => http.setHeader(name, value));
    http.reply(view.status, own ?? htmlPage(view));
  }

  /** The page of the host; `undefined` where it has none. One that fails is logged. */
  async #rendered(http: HttpContext, view: PageView): Promise<string | undefined> {
    const { render } = this.settings ?? {};
    if (render === undefined) {
      return undefined;
    }
    try {
      const html: unknown = await render(view, http);
      if (typeof html === 'string') {
        return html;
      }
      throw new TypeError(`routes.render returned no HTML, but ${html === null ? 'null' : typeof html}`);
    } catch (error) {
      this.log.hostFailed({ option: 'routes.render' }, error);
      return undefined;
    }
  }
}

/** The code of a page for what code of the host refuses: an exception with this status, and no code of ours. */
function codeOf(status: number): PageView['code'] {
  if (status === 401) {
    return 'unauthenticated';
  }
  return status < 500 ? 'invalid_argument' : 'configuration_invalid';
}
