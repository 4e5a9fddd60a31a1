import { Inject, Injectable } from '@nestjs/common';
import type { HttpContext } from '../browser/http-context.js';
import { ConfigurationError } from '../errors/configuration.error.js';
import { HTTP_STATUS_BY_CODE, isErrorCode, type ExhibitorErrorCode } from '../errors/error-codes.js';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { LoginFailedError } from '../errors/login-failed.error.js';
import type { OpenedLogin } from '../login/started-login.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import { isRecord } from '../model/json-values.js';
import type { ExhibitorRequest } from '../model/exhibitor-request.interface.js';
import { Clock } from '../call/clock.js';
import { fieldOf, returnToOf, textOf } from './request-fields.js';
import { ExhibitorSelection } from './exhibitor-selection.service.js';
import { ExhibitorGuardServices } from './guard-services.js';
import { isReason, wordsFor, type Refused } from './page-view.js';
import { setLoginHeaders } from './route-guard.js';
import { toHttpException } from './to-http-exception.js';

/** Age up to which a started login leads back from the page of its failure, in ms. */
const MAX_AGE = 86_400_000;

/** Members of a record that may be a name for people. */
const NAMES = ['name', 'title', 'companyName'];

interface RequestPair {
  request: ExhibitorRequest;
  response: object;
}

/** What the handlers of the routes of the module answer. */
@Injectable()
export class RouteReplies {
  constructor(
    @Inject(ExhibitorGuardServices) private readonly services: ExhibitorGuardServices,
    @Inject(ExhibitorSelection) private readonly selection: ExhibitorSelection<unknown>,
    @Inject(Clock) private readonly clock: Clock,
  ) {}

  async loggedIn(pair: RequestPair, { tenant, returnTo }: ExhibitorIdentity): Promise<void> {
    const http = this.#httpOf(pair);
    return this.#goOn(http, tenant, returnTo);
  }

  async loggedOut(pair: RequestPair): Promise<void> {
    const http = this.#httpOf(pair);
    const { pages, tenants } = this.services;
    const returnTo = returnToOf(fieldOf(http, 'returnTo') ?? textOf(pair.request.query['returnTo']));
    // The tenant of the user is not known any more. For the addresses any one will do: a proxy mostly removes the same for all tenants.
    const routes = await pages.routesFor(tenants.onlyKey ?? tenants.fixed[0]?.key);
    http.redirect(returnTo ?? routes?.afterLogout ?? pages.addresses.after('logout'), 303);
  }

  me(pair: RequestPair, { email, tenant, eventId, expiresAt }: ExhibitorIdentity): void {
    this.#httpOf(pair).reply(200, { email, tenant, eventId, expiresAt });
  }

  /** The page of a failed login; or where that login was to lead, for a person who has logged in since then. */
  async failed(pair: RequestPair): Promise<void> {
    const http = this.#httpOf(pair);
    setLoginHeaders(http);
    const { query } = pair.request;
    const refused = refusedFor(textOf(query['code']), textOf(query['reason']));
    // A redirect shows that somebody is logged in. A script may be of another origin, so it gets none.
    if (!this.services.pages.isFor(http)) {
      return http.reply(refused.status, bodyFor(refused));
    }
    const login = await this.services.login.started.open(textOf(query['login']) ?? '');
    // Neither does a frame, which a page of a neighbour host may have.
    const mayLead = this.services.pages.mayLead(http);
    if (login !== undefined && mayLead && (await this.#hasLoggedInSince(http, login))) {
      // So that a page which refuses this identity does not lead here again and again.
      this.services.led.set(http, this.services.tenants.peek(login.tenant)?.login?.redirectUri ?? '');
      return this.#goOn(http, login.tenant, login.returnTo);
    }
    const place = { tenant: login?.tenant, eventId: login?.eventId, returnTo: login?.returnTo };
    return this.services.pages.showRefusal(http, refused, place);
  }

  async choice(pair: RequestPair): Promise<void> {
    const http = this.#httpOf(pair);
    const { tenant = '', eventId = '', exhibitors = [] } = pair.request.exhibitorContext ?? {};
    const shown = exhibitors.flatMap((one) => {
      const id = this.services.lookups.idOf(one);
      return id === undefined ? [] : [{ id, label: this.#label(one) ?? id }];
    });
    if (shown.length === 0 && exhibitors.length > 0) {
      const expected = 'must answer an id: no exhibitor of a user has one, so that none can be chosen';
      throw new ConfigurationError([{ path: 'exhibitorId', expected }], tenant);
    }
    if (this.services.pages.isFor(http)) {
      const returnTo = returnToOf(fieldOf(http, 'returnTo'));
      return this.services.pages.showChoice(http, tenant, { eventId, returnTo, exhibitors: shown });
    }
    const chosen = this.selection.chosen(pair);
    http.reply(200, { eventId, ...(chosen !== undefined && { chosen }), exhibitors: shown });
  }

  async chosen(pair: RequestPair): Promise<void> {
    const http = this.#httpOf(pair);
    await this.selection.select(pair, fieldOf(http, 'exhibitorId') ?? '');
    if (!this.services.pages.isFor(http)) {
      return http.reply(204);
    }
    const { tenant = '' } = pair.request.exhibitorContext ?? {};
    return this.#goOn(http, tenant, returnToOf(fieldOf(http, 'returnTo')));
  }

  #httpOf({ request, response }: RequestPair): HttpContext {
    return this.services.httpOf(request, response);
  }

  async #goOn(http: HttpContext, tenant: string, returnTo: string | undefined): Promise<void> {
    const { pages } = this.services;
    const routes = await pages.routesFor(tenant);
    http.redirect(returnTo ?? routes?.afterLogin ?? pages.addresses.after('login'), 303);
  }

  /** True where the request has an identity of the tenant of this started login that is newer than that: by this login, or a later one. */
  async #hasLoggedInSince(
    http: HttpContext,
    { tenant: key, startedAt, former }: OpenedLogin,
  ): Promise<boolean> {
    if (this.clock.epochMs() - startedAt > MAX_AGE) {
      return false;
    }
    try {
      const identity = await this.services.identityOf(http, key);
      // An identity that was there before could be newer by the tolerance of clocks.
      if (identity?.loggedInAt === undefined || former.some(({ id }) => id === identity.id)) {
        return false;
      }
      const tolerance = (this.services.tenants.peek(key)?.login?.clockTolerance ?? 0) * 1000;
      return identity.loggedInAt >= startedAt - tolerance;
    } catch (error) {
      // A store or a tenant source that fails, a bearer token that is refused: the page says what is to be said.
      if (isExhibitorError(error)) {
        return false;
      }
      throw error;
    }
  }

  /** A function of the host that fails must not keep people from choosing. */
  #label(exhibitor: unknown): string | undefined {
    try {
      const label = this.services.settings().exhibitorLabel?.(exhibitor);
      return isLabel(label) ? label : defaultLabel(exhibitor);
    } catch (error) {
      this.services.log.hostFailed({ option: 'exhibitorLabel' }, error);
      return defaultLabel(exhibitor);
    }
  }
}

/** What people read of an exhibitor where the host does not say: text that is one line of a list. */
function defaultLabel(record: unknown): string | undefined {
  const values = isRecord(record) ? NAMES.map((name) => record[name]) : [];
  return values.find(isLabel);
}

function isLabel(value: unknown): value is string {
  return typeof value === 'string' && value.trim() !== '';
}

/** Anybody can write this address: known words only. */
function refusedFor(given: string | undefined, reason: string | undefined): Refused {
  const code: ExhibitorErrorCode = given !== undefined && isErrorCode(given) ? given : 'login_failed';
  const status = HTTP_STATUS_BY_CODE[code];
  const hasReason = code === 'login_failed' && reason !== undefined && isReason(reason);
  return { status, code, reason: hasReason ? reason : undefined };
}

/** The body for a script: as of any error with this code. Below status 500, its message is the title of the page. */
function bodyFor(refused: Refused): string | object {
  const { code, reason } = refused;
  const { title } = wordsFor(refused);
  const error = reason === undefined ? new ExhibitorError(code, title) : new LoginFailedError(reason, title);
  return toHttpException(error).getResponse();
}
