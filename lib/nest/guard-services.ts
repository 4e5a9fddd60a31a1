import { Inject, Injectable, type ExecutionContext, type HttpException } from '@nestjs/common';
import type { AbstractHttpAdapter } from '@nestjs/core';
import { ConfigurationError } from '../errors/configuration.error.js';
import type { ExhibitorError } from '../errors/exhibitor.error.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { ExhibitorsService } from '../exhibitors/exhibitors.service.js';
import { ExhibitorLookups } from '../exhibitors/lookups/exhibitor-lookups.service.js';
import { HttpContext } from '../browser/http-context.js';
import { LedCookie } from '../login/led-cookie.service.js';
import { LoginService } from '../login/login.service.js';
import { LogoutService } from '../login/logout.service.js';
import { ProviderLogouts } from '../login/provider-logouts.service.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import type { ExhibitorRequest } from '../model/exhibitor-request.interface.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../config/check-options.js';
import { requireOneCopy } from '../config/installed-packages.js';
import type { ExhibitorSettings } from '../config/exhibitor-settings.js';
import { unnamedEvent } from '../config/problems/host-problems.js';
import { ProblemLog } from '../config/problems/problem-log.service.js';
import { IdentityReader } from '../login/identity-reader.service.js';
import { IdentityCookie } from '../login/identity-cookie.service.js';
import type { FoundIdentity } from '../login/identity.js';
import { SelectionCookie } from '../login/selection-cookie.service.js';
import { TenantRegistry } from '../config/tenant-registry.service.js';
import { NestParts } from './nest-parts.service.js';
import { declaredOn } from './execution-context.js';
import { Pages } from './pages.service.js';
import { toHttpException } from './to-http-exception.js';

/** An option that tells what a request is about. */
type HostFunction = 'resolveTenant' | 'resolveEvent' | 'resolveExhibitor';

const FOUND = Symbol('nestjs-exhibitor.found');
const ASKED = Symbol('nestjs-exhibitor.asked');

/** The context of one guard, and what is known in it. Not in a WeakMap, whose values outlive a scavenge: that took 4 µs a request. */
interface GuardContext extends HttpContext {
  /** What was checked last: for several reads of one tenant, a source of tenants is asked once. */
  [FOUND]?: FoundIdentity;
  /** What functions of the host have returned. */
  [ASKED]?: Partial<Record<HostFunction, Promise<string | undefined>>>;
}

/**
 * The services of {@link ExhibitorModule} that guards, filter and selection need. Opaque: a subclass of a guard only passes it
 * on to `super`.
 *
 * @example
 * constructor(
 *   @Optional() @Inject(ExhibitorGuardServices) services: ExhibitorGuardServices,
 *   @Inject(AuditLog) private readonly audit: AuditLog,
 * ) {
 *   super(services);
 * }
 */
@Injectable()
export class ExhibitorGuardServices {
  /** Functions of the host that say what a request is about. @internal */
  readonly resolvers: Pick<ExhibitorSettings, HostFunction>;
  readonly #settings: ExhibitorSettings;
  readonly #parts: NestParts;

  /** @internal */
  constructor(
    @Inject(NestParts) parts: NestParts,
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    /** @internal */
    @Inject(TenantRegistry) readonly tenants: TenantRegistry,
    /** @internal */
    @Inject(ExhibitorsService) readonly exhibitors: ExhibitorsService,
    /** @internal */
    @Inject(ExhibitorLookups) readonly lookups: ExhibitorLookups,
    /** @internal */
    @Inject(IdentityReader) readonly reader: IdentityReader,
    /** @internal */
    @Inject(IdentityCookie) readonly cookie: IdentityCookie,
    /** @internal */
    @Inject(SelectionCookie) readonly selections: SelectionCookie,
    /** @internal */
    @Inject(LoginService) readonly login: LoginService,
    /** @internal */
    @Inject(LogoutService) readonly logout: LogoutService,
    /** @internal */
    @Inject(ProviderLogouts) readonly providerLogouts: ProviderLogouts,
    /** @internal */
    @Inject(ProblemLog) readonly log: ProblemLog,
    /** @internal */
    @Inject(LedCookie) readonly led: LedCookie,
    /** @internal */
    @Inject(Pages) readonly pages: Pages,
  ) {
    const { resolveTenant, resolveEvent, resolveExhibitor } = settings;
    this.resolvers = { resolveTenant, resolveEvent, resolveExhibitor };
    this.#settings = settings;
    this.#parts = parts;
  }

  /** A method, since `util.inspect` shows what getters answer, here secrets. @internal */
  settings(): ExhibitorSettings {
    return this.#settings;
  }

  /** @internal */
  get adapter(): AbstractHttpAdapter {
    return this.#parts.adapterHost.httpAdapter;
  }

  /** @internal */
  httpOf(request: ExhibitorRequest, response: unknown, context?: ExecutionContext): HttpContext {
    return new HttpContext(request, response, this.#parts.adapterHost.httpAdapter, context);
  }

  /**
   * The identity of a request, as it is found by default. A step of a guard returns it alone: what was checked with it is kept in `http`,
   * for {@link withTenant}.
   *
   * @internal
   */
  async identityOf(http: GuardContext, tenantKey?: string): Promise<ExhibitorIdentity | undefined> {
    const found = await this.reader.read(http, tenantKey);
    if (found === undefined) {
      return undefined;
    }
    http[FOUND] = found;
    await this.cookie.renew(http, found);
    return found.identity;
  }

  /**
   * An identity that a step of a guard returned, with the tenant that was checked for it: that of {@link identityOf}, or a changed copy
   * of it. Where none was found, or one of another tenant, the host made it itself: its tenant is the one that it names, and it counts as
   * one in a cookie.
   *
   * @internal
   */
  async withTenant(http: GuardContext, identity: ExhibitorIdentity): Promise<FoundIdentity> {
    const found = http[FOUND];
    if (found?.tenant.key === identity.tenant) {
      return found.identity === identity ? found : { ...found, identity };
    }
    const tenant = await this.tenants.get(identity.tenant);
    return (http[FOUND] = { identity, tenant, mode: 'cookie' });
  }

  /** What a function of the host returns for this request; it is called once. @internal */
  ask(option: HostFunction, http: GuardContext): Promise<string | undefined> {
    const asked = (http[ASKED] ??= {});
    return (asked[option] ??= this.#ask(option, http));
  }

  /** Ids from a database are often numbers, which are refused. */
  async #ask(option: HostFunction, { request, context }: HttpContext): Promise<string | undefined> {
    const asked = async (): Promise<unknown> => this.resolvers[option]?.(request, context);
    const returned = await asked().catch((error: unknown) => {
      // It may throw one of ours, such as `unknown_tenant`.
      throw isExhibitorError(error) ? error : this.log.hostError({ option }, error);
    });
    if (returned === undefined || returned === null || typeof returned === 'string') {
      return returned ?? undefined;
    }
    const expected = `must answer a string or undefined, not ${typeof returned}`;
    throw new ConfigurationError([{ path: option, expected }]);
  }

  /** The reply for an error. A mistake of the host is logged, with the route that a guard refused. @internal */
  exceptionFor(error: ExhibitorError, http?: HttpContext, route?: ExecutionContext): HttpException {
    this.log.reportMistake(error);
    if (route !== undefined && error.code === 'event_required' && !declaredOn(route).isChoosing) {
      const problem = unnamedEvent(route.getClass().name, route.getHandler().name);
      this.log.report(this.tenants.peek(error.tenant ?? ''), problem);
    }
    return toHttpException(error, http);
  }

  /** The exhibitor that was chosen for an event, of the user's own. @internal */
  chosenOf<T>(
    http: HttpContext,
    who: FoundIdentity,
    eventId: string,
    exhibitors: readonly T[],
  ): T | undefined {
    const isChosen = this.selections.read(http, who, eventId);
    return isChosen === undefined ? undefined : this.#find(exhibitors, isChosen);
  }

  /** The exhibitor with this id, of the user's own. @internal */
  ownOf<T>(exhibitors: readonly T[], id: string): T | undefined {
    return this.#find(exhibitors, (own) => own === id);
  }

  #find<T>(exhibitors: readonly T[], isWanted: (id: string) => boolean): T | undefined {
    return exhibitors.find((one) => {
      const id = this.lookups.idOf(one);
      return id !== undefined && isWanted(id);
    });
  }
}

/** The services, where the module of the controller can inject them. @internal */
export function requireServices(
  services: ExhibitorGuardServices | undefined,
  caller: string,
): ExhibitorGuardServices {
  if (services !== undefined) {
    return services;
  }
  // The services may be there, of another copy.
  requireOneCopy();
  throw new Error(
    `${caller} cannot find its services: import ExhibitorModule in the module of the controller, or once in the root module with ` +
      'isGlobal: true. Where it is imported, the constructor was called without them: write super(services) in a subclass, and ' +
      `new ${caller}(app.get(ExhibitorGuardServices)) for a guard made by hand`,
  );
}
