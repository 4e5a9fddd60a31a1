import { Inject, Injectable, type ExecutionContext } from '@nestjs/common';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { exhibitorIdOf, type ExhibitorIdOf } from '../exhibitors/exhibitor-id.js';
import { ExhibitorsService } from '../exhibitors/exhibitors.service.js';
import type { HttpContext } from '../http/http-context.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import type { ExhibitorSettings } from '../options/exhibitor-settings.js';
import type { SessionState } from '../session/identity-session.service.js';
import { TenantRegistry } from '../tenants/tenant-registry.service.js';

/** Finds the tenant, event and exhibitors of a request, by the options of the host. */
@Injectable()
export class RequestResolver {
  readonly #settings: ExhibitorSettings;
  readonly #tenants: TenantRegistry;
  readonly #exhibitors: ExhibitorsService;
  readonly #idOf: ExhibitorIdOf;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(TenantRegistry) tenants: TenantRegistry,
    @Inject(ExhibitorsService) exhibitors: ExhibitorsService,
  ) {
    this.#settings = settings;
    this.#tenants = tenants;
    this.#exhibitors = exhibitors;
    this.#idOf = exhibitorIdOf(settings);
  }

  /**
   * Key of the tenant that `resolveTenant` answers, else of the only one; `undefined` where there are several.
   *
   * @throws {ExhibitorError} `unknown_tenant`; `configuration_invalid` where the host answers anything but a string
   */
  async tenantKey({ request }: HttpContext, context: ExecutionContext): Promise<string | undefined> {
    const answer = await this.#settings.resolveTenant?.(request, context);
    const key = checkAnswer('resolveTenant', answer) ?? this.#tenants.onlyKey;
    if (key !== undefined) {
      await this.#tenants.get(key);
    }
    return key;
  }

  /** The event that `resolveEvent` answers, else the route parameter, else the query, else the event of the login. */
  async eventId(
    { request }: HttpContext,
    context: ExecutionContext,
    loginEvent?: string,
  ): Promise<string | undefined> {
    const { resolveEvent } = this.#settings;
    if (resolveEvent !== undefined) {
      return checkAnswer('resolveEvent', await resolveEvent(request, context)) ?? loginEvent;
    }
    return textOf(request.params?.['eventId']) ?? textOf(request.query?.['eventId']) ?? loginEvent;
  }

  /** The exhibitors of the user at the event, always with the client-credentials token of the tenant. */
  lookup({ tenant, identity }: SessionState, eventId: string): Promise<readonly unknown[]> {
    return this.#exhibitors.lookupFor(tenant, eventId, identity.email);
  }

  /**
   * Id of the exhibitor of the request: the one it names, else the selected one, else the only one.
   *
   * @throws {ExhibitorError} `no_exhibitor` where the request names one that is not the user's own
   */
  async exhibitorId(
    http: HttpContext,
    context: ExecutionContext,
    session: SessionState,
    eventId: string,
    exhibitors: readonly unknown[],
  ): Promise<string | undefined> {
    const ids = exhibitors.map((exhibitor) => this.#idOf(exhibitor));
    const named = await this.#namedExhibitor(http, context);
    if (named !== undefined) {
      if (ids.includes(named)) {
        return named;
      }
      throw new ExhibitorError('no_exhibitor', 'this exhibitor is not one of yours at this event', {
        tenant: session.tenant.key,
      });
    }
    const selected = session.selections.find(([event]) => event === eventId)?.[1];
    if (selected !== undefined && ids.includes(selected)) {
      return selected;
    }
    return ids.length === 1 ? ids[0] : undefined;
  }

  /** The record with this id. A single record needs no id. */
  find(exhibitors: readonly unknown[], exhibitorId: string | undefined): unknown {
    if (exhibitors.length === 1 && exhibitorId === undefined) {
      return exhibitors[0];
    }
    return exhibitors.find((exhibitor) => exhibitorId !== undefined && this.#idOf(exhibitor) === exhibitorId);
  }

  async #namedExhibitor({ request }: HttpContext, context: ExecutionContext): Promise<string | undefined> {
    const { resolveExhibitor } = this.#settings;
    return resolveExhibitor === undefined
      ? textOf(request.params?.['exhibitorId'])
      : checkAnswer('resolveExhibitor', await resolveExhibitor(request, context));
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
  throw new ExhibitorError(
    'configuration_invalid',
    `${option} must answer a string or undefined, not ${typeof answer}`,
  );
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}
