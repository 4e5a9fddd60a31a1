import { Inject, Injectable, type ExecutionContext } from '@nestjs/common';
import { ConfigurationError } from '../errors/configuration.error.js';
import { lookupOptions } from '../exhibitors/call-options.schema.js';
import { CallRunner } from '../exhibitors/call-runner.service.js';
import { ExhibitorLookups } from '../exhibitors/lookups/exhibitor-lookups.service.js';
import type { LookupSubject } from '../exhibitors/lookups/lookup-endpoint.js';
import { isCrossSiteRequest } from '../http/fetch-metadata.js';
import type { HttpContext } from '../http/http-context.js';
import type { ExhibitorContext } from '../model/exhibitor-request.interface.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import type { ExhibitorSettings } from '../options/exhibitor-settings.js';
import { unnamedEvent } from '../problems/host-problems.js';
import { ProblemLog } from '../problems/problem-log.service.js';
import type { SessionState } from '../session/request-user.js';
import { SelectionCookie } from '../session/selection-cookie.service.js';
import { TenantRegistry } from '../tenants/tenant-registry.service.js';

/** Finds the tenant, event and exhibitors of a request, by the options of the host. */
@Injectable()
export class RequestResolver {
  readonly #settings: ExhibitorSettings;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(TenantRegistry) private readonly tenants: TenantRegistry,
    @Inject(CallRunner) private readonly calls: CallRunner,
    @Inject(ExhibitorLookups) private readonly lookups: ExhibitorLookups,
    @Inject(SelectionCookie) private readonly selections: SelectionCookie,
    @Inject(ProblemLog) private readonly log: ProblemLog,
  ) {
    this.#settings = settings;
  }

  /** Key of the tenant that `resolveTenant` answers, else of the only one; `undefined` where there are several. */
  async tenantKey(http: HttpContext, context: ExecutionContext): Promise<string | undefined> {
    const { resolveTenant } = this.#settings;
    const named = resolveTenant && (await this.#ask('resolveTenant', http, context));
    if (named === undefined) {
      return this.tenants.onlyKey;
    }
    await this.tenants.find(named);
    return named;
  }

  /**
   * The event that a request is about: with the option, that of `resolveEvent`; else the route parameter `eventId`, else the query; else
   * the event of the login. Where the handler may read it elsewhere, the query and the login do not count: the guard would decide about
   * another event.
   *
   * @param session `undefined` where nobody is logged in
   */
  async eventId(
    http: HttpContext,
    context: ExecutionContext,
    session: SessionState | undefined,
  ): Promise<string | undefined> {
    const { params = {}, query = {} } = http.request;
    const isHttp = context.getType<string>() === 'http';
    const isOnlyInQuery = isHttp && Object.keys(params).every((name) => OTHER_PARAMETERS.includes(name));
    const ofLogin = isOnlyInQuery ? session?.identity.eventId : undefined;
    if (this.#settings.resolveEvent !== undefined) {
      return (await this.#ask('resolveEvent', http, context)) ?? ofLogin;
    }
    if (isOnlyInQuery) {
      // A list, or an object of Express: the handler may read an event in it.
      return (query['eventId'] ?? '') === '' ? ofLogin : textOf(query['eventId']);
    }
    if (isHttp && 'eventId' in params) {
      return textOf(params['eventId']);
    }
    if (session !== undefined) {
      this.log.report(session.tenant, unnamedEvent(context.getClass().name, context.getHandler().name));
    }
    return undefined;
  }

  /**
   * The event to log in for. It decides nothing yet, so that the query counts on every route: `redirectToLogin` names the event of the
   * request there, for which `resolveEvent` was asked.
   */
  async loginEventId(http: HttpContext, context: ExecutionContext): Promise<string | undefined> {
    const { params, query } = http.request;
    const inQuery = textOf(query?.['eventId']);
    return this.#settings.resolveEvent === undefined
      ? (textOf(params?.['eventId']) ?? inQuery)
      : (inQuery ?? this.#ask('resolveEvent', http, context));
  }

  /** What a function of the host answers. Ids from a database are often numbers, and other objects would be read as `[object Object]`. */
  async #ask(
    option: 'resolveTenant' | 'resolveEvent' | 'resolveExhibitor',
    { request }: HttpContext,
    context: ExecutionContext,
  ): Promise<string | undefined> {
    const answer: unknown = await this.#settings[option]?.(request, context);
    if (answer === undefined || answer === null) {
      return undefined;
    }
    if (typeof answer === 'string') {
      return answer;
    }
    const expected = `must answer a string or undefined, not ${typeof answer}`;
    throw new ConfigurationError([{ path: option, expected }]);
  }

  /** True for a request that a page of an origin caused which may not select. */
  isCrossSite(http: HttpContext, redirectUri: string | undefined): boolean {
    return isCrossSiteRequest(http, redirectUri, this.#settings.trustedOrigins);
  }

  /**
   * The exhibitors of the user at the event, always with the client-credentials token of the tenant: of the one that was checked, since a
   * source may give its key to another customer meanwhile.
   */
  lookup(
    { tenant, identity: { email } }: SessionState,
    eventId: string,
  ): readonly unknown[] | Promise<readonly unknown[]> {
    const subject = { tenant, eventId, contactEmail: email };
    return this.lookups.remembered(subject) ?? this.#find(subject);
  }

  async #find(subject: LookupSubject): Promise<readonly unknown[]> {
    const { tenant, eventId, contactEmail } = subject;
    this.calls.check('lookup', { eventId, contactEmail }, lookupOptions, { tenant: tenant.key }, undefined);
    return this.calls.within(tenant, {}, (deadline) => this.lookups.find(subject, deadline));
  }

  /**
   * The exhibitor of the request: the one that it names, by `resolveExhibitor` or the route parameter; else the selected one, else the
   * only one; empty where there are several and none was chosen. `undefined` where the request names one that is not the user's own.
   */
  async choose(
    http: HttpContext,
    context: ExecutionContext,
    {
      session,
      eventId,
      exhibitors,
    }: { session: SessionState; eventId: string; exhibitors: readonly unknown[] },
  ): Promise<Pick<ExhibitorContext, 'exhibitorId' | 'exhibitor'> | undefined> {
    const named =
      this.#settings.resolveExhibitor === undefined
        ? textOf(http.request.params?.['exhibitorId'])
        : await this.#ask('resolveExhibitor', http, context);
    if (named !== undefined) {
      const own = this.find(exhibitors, named);
      return own === undefined ? undefined : { exhibitorId: named, exhibitor: own };
    }
    const [only] = exhibitors;
    if (exhibitors.length === 1) {
      // A single record needs no id.
      return { exhibitorId: this.lookups.idOf(only), exhibitor: only };
    }
    const selected = this.selections.read(http, session, eventId);
    const exhibitor = selected === undefined ? undefined : this.find(exhibitors, selected);
    return exhibitor === undefined ? {} : { exhibitorId: selected, exhibitor };
  }

  find(exhibitors: readonly unknown[], exhibitorId: string): unknown {
    return exhibitors.find((exhibitor) => this.lookups.idOf(exhibitor) === exhibitorId);
  }
}

/** Parameters of a route that name no event. */
const OTHER_PARAMETERS = ['tenant', 'exhibitorId'];

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}
