import { Inject, Injectable } from '@nestjs/common';
import { publish } from '../call/channels.js';
import { ConfigurationError } from '../errors/configuration.error.js';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { LoginFailedError } from '../errors/login-failed.error.js';
import { isInForeignFrame, mayShowPage } from '../browser/fetch-metadata.js';
import type { HttpContext } from '../browser/http-context.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import { checkEventId } from '../model/path-parameters.js';
import { OpenIdProvider } from '../oidc/openid-provider.service.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../config/check-options.js';
import type { ExhibitorSettings } from '../config/exhibitor-settings.js';
import { hasBrowser } from '../config/option-rules.js';
import type { Refusal } from '../config/problems/problem.interface.js';
import { ProblemLog } from '../config/problems/problem-log.service.js';
import { EndedLogins } from './ended-logins.service.js';
import { IdTokenCookie, type KeptIdToken } from './id-token-cookie.service.js';
import { IdentityCookie } from './identity-cookie.service.js';
import { IdentityReader } from './identity-reader.service.js';
import { formerOf, personOf, type FoundIdentity } from './identity.js';
import { LedCookie } from './led-cookie.service.js';
import { Sealer } from '../store/sealer.service.js';
import { SelectionCookie } from './selection-cookie.service.js';
import { SpentStates } from './spent-states.service.js';
import { TenantRegistry } from '../config/tenant-registry.service.js';
import { browserLoginOf, type Tenant } from '../config/tenant.js';
import { Clock } from '../call/clock.js';
import { Calls } from '../call/calls.service.js';
import { authorizationUrl, checkLoginParameters } from './authorization-request.js';
import {
  NO_COOKIE,
  readCallback,
  WITHOUT_COOKIE,
  refusalWithoutState,
  type CallbackParameters,
} from './callback-parameters.js';
import { CallbackVerifier } from './callback-verifier.service.js';
import { safeReturnTo } from './return-to.js';
import { clientDigest, StartedLogins, type OpenedLogin, type ProvenLogin } from './started-login.js';

/** Shown to a user who reloads a callback or goes back to it. */
const ADVICE = 'this login was finished before or has expired: start the login again';

const NOT_STARTED = `this response belongs to no started login: ${ADVICE}`;

export interface LoginTarget {
  eventId: string | undefined;
  /** Where to go after the login. Dropped unless it is a path of this origin. */
  returnTo: unknown;
  /** Whether a guard led the browser here. */
  led: boolean;
  /** {@link LoginParameters} that a host may have taken from the request; they are checked. */
  parameters: unknown;
}

export interface CallbackRoute {
  /** Path of the request, which must be that of the `redirectUri`. Asked where the login is that of this browser. */
  getPath: () => string | Promise<string>;
  /** Keeps the identity with `session: 'host'`. */
  storeIdentity: (identity: ExhibitorIdentity) => void | Promise<void>;
}

@Injectable()
export class LoginService {
  readonly #settings: ExhibitorSettings;
  readonly started: StartedLogins;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(TenantRegistry) private readonly tenants: TenantRegistry,
    @Inject(OpenIdProvider) private readonly provider: OpenIdProvider,
    @Inject(Sealer) sealer: Sealer,
    @Inject(SpentStates) private readonly states: SpentStates,
    @Inject(CallbackVerifier) private readonly callback: CallbackVerifier,
    @Inject(IdentityReader) private readonly reader: IdentityReader,
    @Inject(IdentityCookie) private readonly cookie: IdentityCookie,
    @Inject(IdTokenCookie) private readonly idTokens: IdTokenCookie,
    @Inject(LedCookie) private readonly led: LedCookie,
    @Inject(SelectionCookie) private readonly selections: SelectionCookie,
    @Inject(EndedLogins) private readonly ended: EndedLogins,
    @Inject(Clock) private readonly clock: Clock,
    @Inject(Calls) private readonly calls: Calls,
    @Inject(ProblemLog) private readonly log: ProblemLog,
  ) {
    this.#settings = settings;
    this.started = new StartedLogins(sealer, log, settings.cookies);
  }

  /**
   * Starts a login: gives the browser its cookie and returns the address of the provider to redirect to.
   *
   * @param getTarget code of the host, asked where the request may start a login
   */
  async start(
    http: HttpContext,
    tenantKey: string | undefined,
    getTarget: () => Promise<LoginTarget>,
  ): Promise<string> {
    // An image or a script cannot show the page of the provider: its login would only leave a cookie.
    if (!mayShowPage(http) || (isInForeignFrame(http) && this.#settings.cookies.sameSite !== 'none')) {
      throw new ExhibitorError('invalid_argument', 'a login starts by navigating to this address');
    }
    if (!hasBrowser(this.#settings.session)) {
      const expected = "'bearer' has no login: add 'cookie' or 'host'";
      throw new ConfigurationError([{ path: 'session', expected }]);
    }
    const tenant = await this.tenants.resolve(tenantKey);
    const login = browserLoginOf(tenant);
    const target = await getTarget();
    const eventId = target.eventId === undefined ? undefined : checkEventId(target.eventId);
    const parameters = checkLoginParameters(target.parameters, tenant.key);
    const ages = [login.maxAge, parameters.maxAge].filter((age) => age !== undefined);
    const authorizeUrl = await this.calls
      .start(tenant.http.deadline)
      .run((call) => this.provider.urlOf(tenant, 'authorize', call));
    const request = await this.started.begin(http, tenant, login, {
      eventId,
      returnTo: safeReturnTo(target.returnTo),
      maxAge: ages.length === 0 ? undefined : Math.min(...ages),
      ...(target.led && { led: true }),
      former: formerOf((await this.reader.readAll(http)).identities, tenant.key),
      startedAt: this.clock.epochMs(),
    });
    const url = await authorizationUrl(login, request, authorizeUrl, parameters);
    publish('login', () => ({ tenant: tenant.key, outcome: 'started' }));
    return url;
  }

  /** The login that a callback belongs to, by its `state` alone: it may be over, used, or of another browser. */
  async startedOf(http: HttpContext): Promise<OpenedLogin | undefined> {
    const { state } = readCallback(http) ?? {};
    return state === undefined ? undefined : this.started.open(state);
  }

  /** Finishes a login at the callback: matches and spends the state, verifies the response and keeps the identity. */
  async finish(http: HttpContext, route: CallbackRoute): Promise<FoundIdentity> {
    try {
      const { started, parameters, tenant } = await this.#match(http, route);
      await this.#spend(http, started, parameters);
      const verified = await this.calls
        .start(tenant.http.deadline)
        .run((call) => this.callback.verify(tenant, started, parameters, call));
      const found = await this.#keep(http, tenant, started, verified, route.storeIdentity);
      publish('login', () => ({ tenant: tenant.key, outcome: 'succeeded' }));
      return found;
    } catch (error) {
      publish('login', () => ({
        outcome: 'failed',
        ...(isExhibitorError(error) && error.tenant !== undefined && { tenant: error.tenant }),
        ...(error instanceof LoginFailedError && { reason: error.reason }),
      }));
      throw error;
    }
  }

  /** Keeps a new identity with its ID token, then ends those at its tenant that it replaces. */
  async #keep(
    http: HttpContext,
    tenant: Tenant,
    { former, led }: OpenedLogin,
    { identity, idToken }: KeptIdToken,
    storeIdentity: CallbackRoute['storeIdentity'],
  ): Promise<FoundIdentity> {
    const mode = this.#settings.session.includes('host') ? 'host' : 'cookie';
    // Read before: Passport's `logIn` replaces `request.user`. A `form_post` from another site brings no cookie with `SameSite=Lax`.
    const { identities: kept } = await this.reader.readAll(http);
    await (mode === 'host' ? storeIdentity(identity) : this.cookie.write(http, tenant, identity));
    // After the identity was stored: a login that fails leaves no ID token.
    await this.idTokens.write(http, tenant, identity, idToken);
    this.selections.clearOfAnother(http, identity, kept, former);
    await this.ended.ends.endAll([...former, ...formerOf(kept, tenant.key)], personOf(identity));
    if (led === true) {
      this.led.set(http, identity.redirectUri);
    }
    return { identity, tenant, mode };
  }

  /** The started login of this response, whose `state` alone names the tenant. A login that is refused here can still be finished. */
  async #match(
    http: HttpContext,
    { getPath }: CallbackRoute,
  ): Promise<{ started: ProvenLogin; parameters: CallbackParameters; tenant: Tenant }> {
    const parameters = readCallback(http);
    if (parameters === undefined) {
      const refusal = refusalWithoutState(http);
      throw refusal === undefined
        ? new LoginFailedError('state', NOT_STARTED)
        : this.#refuse(this.tenants.onlyKey, refusal, NOT_STARTED);
    }
    const login = await this.started.open(parameters.state);
    if (login === undefined) {
      throw new LoginFailedError('state', NOT_STARTED);
    }
    const { tenant: key } = login;
    if (login.endsAt <= this.clock.epochMs()) {
      throw new LoginFailedError('state', ADVICE);
    }
    const secrets = this.started.secretsIn(http, login);
    if (secrets === undefined) {
      // A login that was finished has no cookie any more: a reload or the back button.
      throw (await this.states.isSpent(login.id))
        ? new LoginFailedError('state', ADVICE)
        : this.#refuse(key, WITHOUT_COOKIE, `the browser sent ${NO_COOKIE}: start the login again`);
    }
    const tenant = await this.tenants.get(key);
    // The options of the tenant may have changed since the start. A login of another host that shares `secrets` is refused too:
    // that host may ask for less, such as a larger `maxAge`.
    const own = browserLoginOf(tenant);
    if (login.client !== clientDigest(own)) {
      const detail = 'this login was started with another provider, client or host';
      throw this.log.refusal(tenant, 'callback', { reason: 'state', detail }, { message: detail });
    }
    const request = { method: http.request.method, path: await getPath() };
    const misfit = this.callback.misfitOf(parameters, login, own.redirectUri, request);
    if (misfit !== undefined) {
      throw this.#refuse(key, misfit, NOT_STARTED);
    }
    return { started: { ...login, ...secrets }, parameters, tenant };
  }

  /** Anybody can send a browser to the callback. */
  #refuse(tenantKey: string | undefined, refusal: Refusal, message: string): LoginFailedError {
    const tenant = this.tenants.peek(tenantKey ?? '');
    const shown = { ...refusal, isUnverified: true };
    return this.log.refusal(tenant, 'callback', shown, { message, tenant: undefined });
  }

  /** A state is used once, with a `store` in all processes. Anybody can send an `error`, which redeems nothing and is not stored. */
  async #spend(http: HttpContext, login: ProvenLogin, { error }: CallbackParameters): Promise<void> {
    this.started.clear(http, login);
    const { id, startedAt, endsAt, tenant } = login;
    const ttl = endsAt - startedAt;
    const spent = error === undefined ? this.states.spend(id, ttl) : this.states.spendHere(id, ttl);
    if (!(await spent)) {
      throw new LoginFailedError('state', ADVICE, { tenant });
    }
  }
}
