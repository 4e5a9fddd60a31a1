import { Inject, Injectable } from '@nestjs/common';
import { publish } from '../call/channels.js';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { LoginFailedError } from '../errors/login-failed.error.js';
import { isSecure } from '../browser/cookies.js';
import { isInForeignFrame, mayShowPage } from '../browser/fetch-metadata.js';
import type { HttpContext } from '../browser/http-context.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import { checkEventId } from '../model/path-parameters.js';
import { OpenIdProvider } from '../oidc/openid-provider.service.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../config/check-options.js';
import type { ExhibitorSettings } from '../config/exhibitor-settings.js';
import { UNREAD_FORM } from '../config/problems/host-problems.js';
import type { Refusal } from '../config/problems/problem.interface.js';
import { ProblemLog } from '../config/problems/problem-log.service.js';
import { IdentitySession } from './identity-session.service.js';
import type { SessionState } from './request-user.js';
import { Sealer } from '../store/sealer.service.js';
import { SpentStates } from './spent-states.service.js';
import { TenantRegistry } from '../config/tenant-registry.service.js';
import { browserLoginOf, type Tenant } from '../config/tenant.js';
import { Clock } from '../call/clock.js';
import { Deadlines } from '../call/deadline.js';
import { authorizationUrl, checkLoginParameters } from './authorization-request.js';
import { misfitOf, readCallback, type CallbackParameters } from './callback-parameters.js';
import { CallbackVerifier } from './callback-verifier.service.js';
import { safeReturnTo } from './return-to.js';
import {
  clientDigest,
  StartedLogins,
  type OpenedLogin,
  type ProvenLogin,
  type StartedLogin,
} from './started-login.js';

/** Shown to a user who reloads a callback or goes back to it. */
const ADVICE = 'this login was finished before or has expired: start the login again';

const NOT_STARTED = `this response belongs to no started login: ${ADVICE}`;

/** Causes: the login route is on another host than `redirectUri`, or the user changed the browser. */
const NO_COOKIE =
  'no login cookie; the login was finished before, has expired, or started on another host or in another browser';

export interface LoginTarget {
  eventId: string | undefined;
  /** Where to go after the login. Dropped unless it is a path of this origin. */
  returnTo: unknown;
  /** {@link LoginParameters} that a host may have taken from the request; they are checked. */
  parameters: unknown;
}

export interface CallbackRoute<T> {
  /** Path of the request, which must be that of the `redirectUri`. Asked where the login is that of this browser. */
  getPath: () => string | Promise<string>;
  /** Called where the `state` opens, before anything else is verified: the login may be over, used, or of another browser. */
  onMatched: (login: StartedLogin) => void;
  /** Keeps the identity with `session: 'host'`. */
  storeIdentity: (identity: ExhibitorIdentity) => void | Promise<void>;
  /** Called once the identity is kept. The login has failed where it throws. */
  onKept: (session: SessionState) => Promise<T>;
}

@Injectable()
export class LoginService {
  readonly #cookies: ExhibitorSettings['cookies'];
  readonly #started: StartedLogins;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(TenantRegistry) private readonly tenants: TenantRegistry,
    @Inject(OpenIdProvider) private readonly provider: OpenIdProvider,
    @Inject(Sealer) sealer: Sealer,
    @Inject(SpentStates) private readonly states: SpentStates,
    @Inject(CallbackVerifier) private readonly callback: CallbackVerifier,
    @Inject(IdentitySession) private readonly session: IdentitySession,
    @Inject(Clock) private readonly clock: Clock,
    @Inject(Deadlines) private readonly deadlines: Deadlines,
    @Inject(ProblemLog) private readonly log: ProblemLog,
  ) {
    this.#cookies = settings.cookies;
    this.#started = new StartedLogins(sealer, log, settings.cookies);
  }

  /**
   * Starts a login: gives the browser its cookie and answers the address of the provider to redirect to.
   *
   * @param getTarget code of the host, asked where the request may start a login
   */
  async start(
    http: HttpContext,
    tenantKey: string | undefined,
    getTarget: () => Promise<LoginTarget>,
  ): Promise<string> {
    // An image or a script cannot show the page of the provider: its login would only leave a cookie.
    if (!mayShowPage(http) || (isInForeignFrame(http) && this.#cookies.sameSite !== 'none')) {
      throw new ExhibitorError('invalid_argument', 'a login starts by navigating to this address');
    }
    const tenant = await this.tenants.resolve(tenantKey);
    const login = browserLoginOf(tenant);
    const target = await getTarget();
    const eventId = target.eventId === undefined ? undefined : checkEventId(target.eventId);
    const parameters = checkLoginParameters(target.parameters, tenant.key);
    const ages = [login.maxAge, parameters.maxAge].filter((age) => age !== undefined);
    const authorizeUrl = await this.deadlines.within(tenant.http.deadline, (deadline) =>
      this.provider.urlOf(tenant, 'authorize', deadline),
    );
    const request = await this.#started.begin(http, tenant, {
      tenant: tenant.key,
      client: clientDigest(login),
      https: isSecure(login.redirectUri),
      responseType: login.responseType,
      eventId,
      returnTo: safeReturnTo(target.returnTo),
      maxAge: ages.length === 0 ? undefined : Math.min(...ages),
      former: await this.session.carriedLogins(http, tenant.key),
      startedAt: this.clock.epochMs(),
    });
    const url = await authorizationUrl(login, request, authorizeUrl, parameters);
    publish('login', () => ({ tenant: tenant.key, outcome: 'started' }));
    return url;
  }

  /** Finishes a login at the callback: matches and spends the state, verifies the response and starts the session. Returns what `onKept` does. */
  async finish<T>(http: HttpContext, route: CallbackRoute<T>): Promise<T> {
    try {
      const { started, parameters, tenant } = await this.#match(http, route);
      await this.#spend(http, started, parameters);
      const login = await this.deadlines.within(tenant.http.deadline, (deadline) =>
        this.callback.verify(tenant, started, parameters, deadline),
      );
      const state = await this.session.establish(http, tenant, login, route.storeIdentity);
      publish('login', () => ({ tenant: tenant.key, outcome: 'succeeded' }));
      // It may answer the request itself and never settle.
      return await route.onKept(state);
    } catch (error) {
      publish('login', () => ({
        outcome: 'failed',
        ...(isExhibitorError(error) && error.tenant !== undefined && { tenant: error.tenant }),
        ...(error instanceof LoginFailedError && { reason: error.reason }),
      }));
      throw error;
    }
  }

  /** The started login of this response, whose `state` alone names the tenant. One that is refused here can still be finished. */
  async #match(
    http: HttpContext,
    { getPath, onMatched }: CallbackRoute<unknown>,
  ): Promise<{ started: ProvenLogin; parameters: CallbackParameters; tenant: Tenant }> {
    const parameters = readCallback(http);
    if (parameters === undefined) {
      throw this.#withoutState(http);
    }
    const login = await this.#started.open(parameters.state);
    if (login === undefined) {
      throw new LoginFailedError('state', NOT_STARTED);
    }
    const { tenant: key, eventId, returnTo } = login;
    // This goes to code of the host, which needs no more.
    onMatched({ tenant: key, eventId, returnTo });
    if (login.endsAt <= this.clock.epochMs()) {
      throw new LoginFailedError('state', ADVICE);
    }
    const secrets = this.#started.secretsOf(http, login);
    if (secrets === undefined) {
      throw await this.#withoutCookie(login);
    }
    const tenant = await this.tenants.get(key);
    // The options of the tenant may have changed since the start. A login of another host that shares `secrets` is refused too:
    // that host may ask for less, such as a larger `maxAge`.
    const own = browserLoginOf(tenant);
    if (login.client !== clientDigest(own)) {
      const detail = 'this login was started with another provider, client or host';
      throw this.log.refusal(tenant, 'callback', { reason: 'state', detail }, { message: detail });
    }
    const misfit = misfitOf(parameters, login, own.redirectUri, http.request.method, await getPath());
    if (misfit !== undefined) {
      throw this.#refuse(key, misfit, NOT_STARTED);
    }
    return { started: { ...login, ...secrets }, parameters, tenant };
  }

  /** That of a login that was finished is gone: a reload or the back button. */
  async #withoutCookie({ id, tenant }: OpenedLogin): Promise<LoginFailedError> {
    if (await this.states.isSpent(id)) {
      return new LoginFailedError('state', ADVICE);
    }
    const detail = `it brought ${NO_COOKIE}`;
    const refusal: Refusal = { reason: 'state', option: 'login.redirectUri', detail };
    return this.#refuse(tenant, refusal, `the browser sent ${NO_COOKIE}: start the login again`);
  }

  /** Without a `state`, or with a parameter that is repeated or too long. A visit without parameters is not logged. */
  #withoutState(http: HttpContext): LoginFailedError {
    const error = http.target.searchParams.get('error');
    if (http.request.method !== 'POST' && error === null) {
      return new LoginFailedError('state', NOT_STARTED);
    }
    const detail = http.isUnreadForm ? UNREAD_FORM : 'it has no state, or a parameter more than once';
    const received = error === null ? undefined : `error ${error}`;
    return this.#refuse(this.tenants.onlyKey, { reason: 'state', detail, received }, NOT_STARTED);
  }

  /** Anybody can send a browser to the callback. */
  #refuse(tenantKey: string | undefined, refusal: Refusal, message: string): LoginFailedError {
    const tenant = this.tenants.peek(tenantKey ?? '');
    const shown = { ...refusal, isUnverified: true };
    return this.log.refusal(tenant, 'callback', shown, { message, tenant: undefined });
  }

  /** A state is used once, with a `store` in all processes. Anybody can send an `error`, which redeems nothing and is not stored. */
  async #spend(http: HttpContext, login: ProvenLogin, { error }: CallbackParameters): Promise<void> {
    this.#started.clear(http, login);
    const { id, startedAt, endsAt, tenant } = login;
    const ttl = endsAt - startedAt;
    const spent = error === undefined ? this.states.spend(id, ttl) : this.states.spendHere(id, ttl);
    if (!(await spent)) {
      throw new LoginFailedError('state', ADVICE, { tenant });
    }
  }
}
