import { Inject, Injectable, type ExecutionContext } from '@nestjs/common';
import { ConfigurationError } from '../errors/configuration.error.js';
import { LoginFailedError } from '../errors/login-failed.error.js';
import { exhibitorIdOf, type ExhibitorIdOf } from '../exhibitors/exhibitor-id.js';
import { ExhibitorsService } from '../exhibitors/exhibitors.service.js';
import type { HttpContext } from '../http/http-context.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import type { ExhibitorSettings } from '../options/exhibitor-settings.js';
import { foreignCallback } from '../problems/login-problems.js';
import { ProblemLog } from '../problems/problem-log.service.js';
import type { SessionState } from '../session/identity-reader.service.js';
import { TenantRegistry } from '../tenants/tenant-registry.service.js';
import type { Tenant } from '../tenants/tenant.js';
import type { EventResults } from './execution-context.js';

/** Both are missing where the user has several exhibitors and none was chosen. */
interface ChosenExhibitor {
  exhibitorId?: string | undefined;
  exhibitor?: unknown;
}

/** Finds the tenant, event and exhibitors of a request, by the options of the host. */
@Injectable()
export class RequestResolver {
  readonly #settings: ExhibitorSettings;
  readonly #idOf: ExhibitorIdOf;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(TenantRegistry) private readonly tenants: TenantRegistry,
    @Inject(ExhibitorsService) private readonly exhibitors: ExhibitorsService,
    @Inject(ProblemLog) private readonly log: ProblemLog,
  ) {
    this.#settings = settings;
    this.#idOf = exhibitorIdOf(settings);
  }

  /**
   * Key of the tenant that `resolveTenant` answers, else of the only one; `undefined` where there are several.
   *
   * @throws {ExhibitorError} `unknown_tenant`; `configuration_invalid` where the host answers anything but a string
   */
  async tenantKey({ request }: HttpContext, context: ExecutionContext): Promise<string | undefined> {
    const named = checkAnswer('resolveTenant', await this.#settings.resolveTenant?.(request, context));
    if (named === undefined) {
      return this.tenants.onlyKey;
    }
    await this.tenants.find(named);
    return named;
  }

  /**
   * With `callbackTenant: 'resolved'`: a tenant with the issuer of another passes the check of `iss`, and its token endpoint
   * would get the codes of the other's users. Their provider sends them to the callback of the other, though.
   *
   * @param tenant of the login
   * @throws {LoginFailedError} `state` where the request has another tenant or none, or `resolveTenant` throws
   */
  async checkCallback(http: HttpContext, context: ExecutionContext, tenant: Tenant): Promise<void> {
    if (this.#settings.callbackTenant === undefined) {
      return;
    }
    const found = await this.tenantKey(http, context).catch((cause: unknown) => ({ cause }));
    if (found !== tenant.key) {
      this.log.report(tenant, foreignCallback(typeof found === 'string' ? found : 'none'));
      const details = { tenant: tenant.key, ...(typeof found === 'object' ? found : {}) };
      throw new LoginFailedError('state', 'this is not the callback of the tenant of the login', details);
    }
  }

  /** The event that `resolveEvent` answers, else the route parameter, else the query, else the event of the login. */
  async eventId(
    { request }: HttpContext,
    context: ExecutionContext,
    loginEvent?: string,
  ): Promise<string | undefined> {
    const named =
      this.#settings.resolveEvent === undefined
        ? (textOf(request.params?.['eventId']) ?? textOf(request.query?.['eventId']))
        : checkAnswer('resolveEvent', await this.#settings.resolveEvent(request, context));
    return named ?? loginEvent;
  }

  /** The exhibitors of the user at the event, always with the client-credentials token of the tenant. */
  lookup(
    { tenant, identity }: SessionState,
    eventId: string,
  ): readonly unknown[] | Promise<readonly unknown[]> {
    return this.exhibitors.lookupFor(tenant, eventId, identity.email);
  }

  /**
   * The exhibitor of the request: the one that it names, by `resolveExhibitor` or the route parameter; else the selected one,
   * else the only one. `undefined` where the request names one that is not the user's own.
   */
  async choose(
    { request }: HttpContext,
    context: ExecutionContext,
    { session, eventId, exhibitors }: EventResults,
  ): Promise<ChosenExhibitor | undefined> {
    const named =
      this.#settings.resolveExhibitor === undefined
        ? textOf(request.params?.['exhibitorId'])
        : checkAnswer('resolveExhibitor', await this.#settings.resolveExhibitor(request, context));
    if (named !== undefined) {
      const own = this.find(exhibitors, named);
      return own === undefined ? undefined : { exhibitorId: named, exhibitor: own };
    }
    const selected = session.selections.find(([event]) => event === eventId)?.[1];
    const exhibitor = selected === undefined ? undefined : this.find(exhibitors, selected);
    if (exhibitor !== undefined) {
      return { exhibitorId: selected, exhibitor };
    }
    // A single record needs no id.
    const [only] = exhibitors;
    return exhibitors.length === 1 ? { exhibitorId: this.#idOf(only), exhibitor: only } : {};
  }

  find(exhibitors: readonly unknown[], exhibitorId: string): unknown {
    return exhibitors.find((exhibitor) => this.#idOf(exhibitor) === exhibitorId);
  }
}

/** The types say so already, but ids from a database are often numbers, and other objects would be read as `[object Object]`. */
function checkAnswer(option: string, answer: unknown): string | undefined {
  if (answer === undefined || answer === null) {
    return undefined;
  }
  if (typeof answer === 'string') {
    return answer;
  }
  throw new ConfigurationError([
    { path: option, expected: `must answer a string or undefined, not ${typeof answer}` },
  ]);
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}
