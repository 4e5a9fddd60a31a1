import { Inject, Injectable, type ExecutionContext } from '@nestjs/common';
import { ConfigurationError } from '../errors/configuration.error.js';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { exhibitorIdOf, type ExhibitorIdOf } from '../exhibitors/exhibitor-id.js';
import { ExhibitorsService } from '../exhibitors/exhibitors.service.js';
import type { HttpContext } from '../http/http-context.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import type { ExhibitorSettings } from '../options/exhibitor-settings.js';
import type { ExhibitorRequest } from '../model/exhibitor-request.interface.js';
import type { SessionState } from '../session/identity-reader.service.js';
import { TenantRegistry } from '../tenants/tenant-registry.service.js';
import { runSteps, settled, type MaybePromise, type Steps } from '../time/steps.js';
import { memoryIn, memoryOf } from './request-memory.js';

type HostFunction = 'resolveTenant' | 'resolveEvent' | 'resolveExhibitor';

/** Both are missing where the user has several exhibitors and none was chosen. */
interface ChosenExhibitor {
  exhibitorId?: string | undefined;
  exhibitor?: unknown;
}

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
  tenantKey({ request }: HttpContext, context: ExecutionContext): MaybePromise<string | undefined> {
    return this.#settings.resolveTenant === undefined
      ? this.#tenants.onlyKey
      : runSteps(this.#resolvedTenant(request, context));
  }

  /** The event that `resolveEvent` answers, else the route parameter, else the query, else the event of the login. */
  eventId(
    { request }: HttpContext,
    context: ExecutionContext,
    loginEvent?: string,
  ): MaybePromise<string | undefined> {
    if (this.#settings.resolveEvent === undefined) {
      return textOf(request.params?.['eventId']) ?? textOf(request.query?.['eventId']) ?? loginEvent;
    }
    return runSteps(this.#resolvedEvent(request, context, loginEvent));
  }

  /**
   * The exhibitors of the user at the event, always with the client-credentials token of the tenant. Guards of one request
   * (`http`) look up once.
   */
  lookup(session: SessionState, eventId: string, http?: HttpContext): MaybePromise<readonly unknown[]> {
    const memory = http && memoryOf(http.request);
    if (memory?.lookup?.session === session && memory.lookup.eventId === eventId) {
      return memory.lookup.exhibitors;
    }
    const found = this.#exhibitors.lookupFor(session.tenant, eventId, session.identity.email);
    // What the cache answers at once is not worth remembering.
    return memory === undefined || !(found instanceof Promise)
      ? found
      : found.then((exhibitors) => {
          memory.lookup = { session, eventId, exhibitors };
          return exhibitors;
        });
  }

  /** Id of the exhibitor that the request names: what `resolveExhibitor` answers, else the route parameter. */
  namedExhibitor({ request }: HttpContext, context: ExecutionContext): MaybePromise<string | undefined> {
    return this.#settings.resolveExhibitor === undefined
      ? textOf(request.params?.['exhibitorId'])
      : runSteps(this.#ask('resolveExhibitor', request, context));
  }

  /**
   * The exhibitor of the request: the one it names, else the selected one, else the only one.
   *
   * @throws {ExhibitorError} `no_exhibitor` where the request names one that is not the user's own
   */
  choose(
    exhibitors: readonly unknown[],
    named: string | undefined,
    { selections, tenant }: SessionState,
    eventId: string,
  ): ChosenExhibitor {
    if (named !== undefined) {
      const exhibitor = this.find(exhibitors, named);
      if (exhibitor !== undefined) {
        return { exhibitorId: named, exhibitor };
      }
      throw new ExhibitorError('no_exhibitor', 'this exhibitor is not one of yours at this event', {
        tenant: tenant.key,
      });
    }
    const selected = selections.find(([event]) => event === eventId)?.[1];
    const exhibitor = selected === undefined ? undefined : this.find(exhibitors, selected);
    if (exhibitor !== undefined) {
      return { exhibitorId: selected, exhibitor };
    }
    // A single record needs no id.
    const [only] = exhibitors;
    return exhibitors.length === 1 ? { exhibitorId: this.#idOf(only), exhibitor: only } : {};
  }

  /** The record with this id. */
  find(exhibitors: readonly unknown[], exhibitorId: string): unknown {
    return exhibitors.find((exhibitor) => this.#idOf(exhibitor) === exhibitorId);
  }

  *#resolvedTenant(request: ExhibitorRequest, context: ExecutionContext): Steps<string | undefined> {
    const key = (yield* this.#ask('resolveTenant', request, context)) ?? this.#tenants.onlyKey;
    if (key !== undefined) {
      yield* settled(this.#tenants.find(key));
    }
    return key;
  }

  *#resolvedEvent(
    request: ExhibitorRequest,
    context: ExecutionContext,
    loginEvent: string | undefined,
  ): Steps<string | undefined> {
    return (yield* this.#ask('resolveEvent', request, context)) ?? loginEvent;
  }

  /** The answer of a function of the host. It is asked once for each request. */
  *#ask(
    option: HostFunction,
    request: ExhibitorRequest,
    context: ExecutionContext,
  ): Steps<string | undefined> {
    const memory = memoryIn(context, request);
    memory.answers ??= new Map();
    if (!memory.answers.has(option)) {
      const answer = yield* settled(this.#settings[option]?.(request, context));
      memory.answers.set(option, checkAnswer(option, answer));
    }
    return memory.answers.get(option);
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
