import {
  Inject,
  Injectable,
  Optional,
  type CanActivate,
  type ExecutionContext,
  type HttpException,
} from '@nestjs/common';
import { HttpAdapterHost, type AbstractHttpAdapter } from '@nestjs/core';
import { ConfigurationError } from '../errors/configuration.error.js';
import type { ExhibitorError } from '../errors/exhibitor.error.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { CallRunner } from '../exhibitors/call-runner.service.js';
import { ExhibitorLookups } from '../exhibitors/lookups/exhibitor-lookups.service.js';
import { isWithoutUser } from '../browser/fetch-metadata.js';
import { HttpContext } from '../browser/http-context.js';
import { LoginService } from '../login/login.service.js';
import { LogoutService } from '../login/logout.service.js';
import type { ExhibitorRequest } from '../model/exhibitor-request.interface.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../config/check-options.js';
import type { ExhibitorSettings } from '../config/exhibitor-settings.js';
import { unnamedEvent } from '../config/problems/host-problems.js';
import { ProblemLog } from '../config/problems/problem-log.service.js';
import { IdentityReader } from '../login/identity-reader.service.js';
import { SelectionCookie } from '../login/selection-cookie.service.js';
import { TenantRegistry } from '../config/tenant-registry.service.js';
import { requestPairOf } from './execution-context.js';
import { toHttpException } from './to-http-exception.js';

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
  readonly #settings: ExhibitorSettings;

  /** @internal */
  constructor(
    @Inject(HttpAdapterHost) private readonly adapterHost: HttpAdapterHost,
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    /** @internal */
    @Inject(TenantRegistry) readonly tenants: TenantRegistry,
    /** @internal */
    @Inject(CallRunner) readonly calls: CallRunner,
    /** @internal */
    @Inject(ExhibitorLookups) readonly lookups: ExhibitorLookups,
    /** @internal */
    @Inject(IdentityReader) readonly reader: IdentityReader,
    /** @internal */
    @Inject(SelectionCookie) readonly selections: SelectionCookie,
    /** @internal */
    @Inject(LoginService) readonly login: LoginService,
    /** @internal */
    @Inject(LogoutService) readonly logout: LogoutService,
    /** @internal */
    @Inject(ProblemLog) readonly log: ProblemLog,
  ) {
    this.#settings = settings;
  }

  /** A method, since `util.inspect` shows what getters answer, here secrets. @internal */
  settings(): ExhibitorSettings {
    return this.#settings;
  }

  /** @internal */
  get adapter(): AbstractHttpAdapter {
    return this.adapterHost.httpAdapter;
  }

  /** @internal */
  httpOf(request: ExhibitorRequest, response: unknown, context?: ExecutionContext): HttpContext {
    return new HttpContext(request, response, this.adapter, context);
  }

  /** What a function of the host answers. Ids from a database are often numbers, which are refused. @internal */
  async ask(
    option: 'resolveTenant' | 'resolveEvent' | 'resolveExhibitor',
    { request }: HttpContext,
    context: ExecutionContext,
  ): Promise<string | undefined> {
    const asked = async (): Promise<unknown> => this.#settings[option]?.(request, context);
    const answer = await asked().catch((error: unknown) => {
      // It may throw one of ours, such as `unknown_tenant`.
      throw isExhibitorError(error)
        ? error
        : this.log.hostError({ option }, error, 'configuration_invalid', `${option} failed`);
    });
    if (answer === undefined || answer === null || typeof answer === 'string') {
      return answer ?? undefined;
    }
    const expected = `must answer a string or undefined, not ${typeof answer}`;
    throw new ConfigurationError([{ path: option, expected }]);
  }

  /** The reply for an error. A mistake of the host is logged. @internal */
  exceptionFor(error: ExhibitorError, http?: HttpContext): HttpException {
    this.log.reportMistake(error);
    const route = error.code === 'event_required' ? http?.context : undefined;
    if (route !== undefined) {
      const problem = unnamedEvent(route.getClass().name, route.getHandler().name);
      this.log.report(this.tenants.peek(error.tenant ?? ''), problem);
    }
    return toHttpException(error, http);
  }

  /** The one with this id of the user's own exhibitors. @internal */
  ownOf<T>(exhibitors: readonly T[], id: string | undefined): T | undefined {
    return id === undefined ? undefined : exhibitors.find((one) => this.lookups.idOf(one) === id);
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
  throw new Error(
    `${caller} cannot find its services: import ExhibitorModule in the module of the controller, or once in the root module with ` +
      'isGlobal: true. Where it is imported, the constructor was called without them: write super(services) in a subclass, and ' +
      `new ${caller}(app.get(ExhibitorGuardServices)) for a guard made by hand`,
  );
}

/** Headers of the login routes: no cache, and no referrer, since the address of a callback contains the code. */
export const LOGIN_HEADERS = Object.entries({
  'Cache-Control': 'no-store',
  'Referrer-Policy': 'no-referrer',
});

/** Common steps of all guards. Every step may be overridden and may answer a promise. */
@Injectable()
export abstract class RouteGuard implements CanActivate {
  readonly #services: ExhibitorGuardServices;

  constructor(@Optional() @Inject(ExhibitorGuardServices) services?: ExhibitorGuardServices) {
    this.#services = requireServices(services, new.target.name);
  }

  abstract canActivate(context: ExecutionContext): boolean | Promise<boolean>;

  // Static, so that no member of a host's subclass replaces one by accident: the guard would then let every request pass.
  /** @internal */
  static servicesOf(guard: RouteGuard): ExhibitorGuardServices {
    return guard.#services;
  }

  /** Sets the headers of the route and lets the request pass, unless `decide` throws, which `onFailure` answers. @internal */
  static async run(
    guard: RouteGuard,
    context: ExecutionContext,
    headers: readonly [name: string, value: string][],
    decide: (http: HttpContext) => Promise<void>,
  ): Promise<boolean> {
    const request = await guard.getRequest(context);
    const given = guard.getResponse(context);
    // Fastify's reply is thenable: to await it would wait until it is sent.
    const response = given instanceof Promise ? await given : given;
    const http = guard.#services.httpOf(request, response, context);
    for (const [name, value] of headers) {
      http.setHeader(name, value);
    }
    try {
      await decide(http);
      return true;
    } catch (error) {
      return await guard.onFailure(error, http);
    }
  }

  /** As {@link run}, for the start and the end of a login, which a request without a user must neither begin nor spend. @internal */
  static runLogin(
    guard: RouteGuard,
    context: ExecutionContext,
    decide: (http: HttpContext) => Promise<void>,
  ): Promise<boolean> {
    return RouteGuard.run(guard, context, LOGIN_HEADERS, (http) => {
      if (!isWithoutUser(http)) {
        return decide(http);
      }
      // Browsers keep each 2xx of a page that they load ahead: the click that follows a kept 204 does nothing.
      http.reply(http.request.method === 'HEAD' ? 204 : 503);
      return neverSettle();
    });
  }

  /** The request of Nest's context, HTTP or GraphQL. */
  protected getRequest(context: ExecutionContext): ExhibitorRequest | Promise<ExhibitorRequest> {
    return requestPairOf(context, this.constructor.name).request;
  }

  /** The response of Nest's context. On Fastify it must not be returned from an async function: a reply is thenable. */
  protected getResponse(context: ExecutionContext): unknown {
    return requestPairOf(context, this.constructor.name).response;
  }

  /**
   * Key of the tenant: that of `resolveTenant`, else of the only tenant; `undefined` leaves it to the identity, and fails with
   * `tenant_required` where a login starts. The callback and the logout of a user take theirs from the cookies.
   */
  protected getTenant(
    http: HttpContext,
    context: ExecutionContext,
  ): string | undefined | Promise<string | undefined> {
    return this.#services.settings().resolveTenant === undefined
      ? this.#services.tenants.onlyKey
      : this.#namedTenant(http, context);
  }

  async #namedTenant(http: HttpContext, context: ExecutionContext): Promise<string | undefined> {
    const { tenants } = this.#services;
    const named = await this.#services.ask('resolveTenant', http, context);
    if (named === undefined) {
      return tenants.onlyKey;
    }
    // An unknown one is 404, also where nobody is logged in.
    await tenants.find(named);
    return named;
  }

  /** Throws the reply for an {@link ExhibitorError}, by its code. Other errors are thrown as they are. */
  protected onFailure(error: unknown, http: HttpContext): never | Promise<never> {
    if (!isExhibitorError(error)) {
      throw error;
    }
    throw this.#services.exceptionFor(error, http);
  }
}

/** A parameter of a request. One that is empty, or given more than once, counts as none. */
export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** What a guard awaits once it has answered the request: `true` would run the handler, `false` would answer 403. */
export function neverSettle(): Promise<never> {
  return new Promise(() => undefined);
}
