import { Inject, Injectable, type ExecutionContext } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { exhibitorIdOf } from '../exhibitors/exhibitor-id.js';
import { ExhibitorsService } from '../exhibitors/exhibitors.service.js';
import { HttpContext } from '../http/http-context.js';
import { IdentitySession, type SessionState } from '../session/identity-session.service.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import type { ExhibitorSettings } from '../options/exhibitor-settings.js';
import { TenantRegistry } from '../tenants/tenant-registry.service.js';
import type { RequestPair } from './execution-request.js';

/** Finds out what a request is about: tenant, person, event and exhibitors. The guards ask it step by step. */
@Injectable()
export class RequestResolver {
  readonly #settings: ExhibitorSettings;
  readonly #idOf: (exhibitor: unknown) => string | undefined;

  constructor(
    @Inject(CHECKED_OPTIONS) options: CheckedOptions,
    @Inject(HttpAdapterHost) private readonly adapterHost: HttpAdapterHost,
    @Inject(TenantRegistry) private readonly tenants: TenantRegistry,
    @Inject(IdentitySession) private readonly session: IdentitySession,
    @Inject(ExhibitorsService) private readonly exhibitors: ExhibitorsService,
  ) {
    this.#settings = options.settings;
    this.#idOf = exhibitorIdOf(options.settings);
  }

  httpOf({ request, response }: RequestPair): HttpContext {
    return new HttpContext(request, response, this.adapterHost.httpAdapter);
  }

  /** Key of the tenant that `resolveTenant` names, else of the only one; `undefined` leaves it to the identity. */
  async tenantKey(http: HttpContext, context: ExecutionContext): Promise<string | undefined> {
    const key = (await this.#settings.resolveTenant?.(http.request, context)) ?? this.tenants.onlyKey;
    if (key !== undefined) {
      await this.tenants.get(key);
    }
    return key;
  }

  /** The session of the request at this tenant, where there is one. */
  identity(http: HttpContext, tenantKey: string | undefined): Promise<SessionState | undefined> {
    return this.session.read(http, tenantKey);
  }

  /** The event: what `resolveEvent` names, else the route parameter, else the query, else the event of the login. */
  async eventId(
    http: HttpContext,
    context: ExecutionContext,
    loginEvent?: string,
  ): Promise<string | undefined> {
    const { request } = http;
    if (this.#settings.resolveEvent !== undefined) {
      return (await this.#settings.resolveEvent(request, context)) ?? loginEvent;
    }
    return textOf(request.params?.['eventId']) ?? textOf(request.query?.['eventId']) ?? loginEvent;
  }

  /** The person's exhibitors at the event; always on the client-credentials token, never on the login's. */
  lookup({ tenant, identity }: SessionState, eventId: string): Promise<readonly unknown[]> {
    return this.exhibitors.lookupFor(tenant, eventId, identity.email);
  }

  /**
   * The exhibitor the request is about, one of the person's own.
   *
   * @throws {ExhibitorError} `no_exhibitor` where the request names one that is not theirs
   */
  async exhibitorId(
    http: HttpContext,
    context: ExecutionContext,
    state: SessionState,
    eventId: string,
    exhibitors: readonly unknown[],
  ): Promise<string | undefined> {
    const ids = exhibitors.map((exhibitor) => this.#idOf(exhibitor));
    const named = await this.#namedExhibitor(http, context);
    if (named !== undefined && !ids.includes(named)) {
      throw new ExhibitorError('no_exhibitor', 'you do not stand for this exhibitor at this event', {
        tenant: state.tenant.key,
      });
    }
    if (named !== undefined) {
      return named;
    }
    const stored = state.selections.find(([event]) => event === eventId)?.[1];
    if (stored !== undefined && ids.includes(stored)) {
      return stored;
    }
    return ids.length === 1 ? ids[0] : undefined;
  }

  /** The record of an id among these. */
  find(exhibitors: readonly unknown[], exhibitorId: string | undefined): unknown {
    // A single exhibitor is the one, even where its records carry no id.
    if (exhibitors.length === 1 && exhibitorId === undefined) {
      return exhibitors[0];
    }
    return exhibitors.find((exhibitor) => exhibitorId !== undefined && this.#idOf(exhibitor) === exhibitorId);
  }

  async #namedExhibitor({ request }: HttpContext, context: ExecutionContext): Promise<string | undefined> {
    if (this.#settings.resolveExhibitor !== undefined) {
      return this.#settings.resolveExhibitor(request, context);
    }
    return textOf(request.params?.['exhibitorId']);
  }
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}
