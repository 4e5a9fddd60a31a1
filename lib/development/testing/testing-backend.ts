import { randomUUID } from 'node:crypto';
import type {
  Exhibitor,
  ExhibitorErrorCode,
  ExhibitorIdentity,
  ExhibitorModuleOptions,
} from '../../index.js';
import { defaultExhibitorId, idBy } from '../../exhibitors/exhibitor-id.js';
import { createFailure } from './testing-failures.js';

/** Options of the module that a test keeps: what a request is about, and which lookups are cached. */
type KeptOptions = Pick<
  ExhibitorModuleOptions,
  'resolveTenant' | 'resolveEvent' | 'resolveExhibitor' | 'lookupCache'
>;

/** A call of a service. */
export interface ExhibitorTestingCall {
  /** A `lookup` is also one of `ExhibitorGuard`. Calls that a cache answers are here too. */
  readonly method: ExhibitorTestingMethod;
  /** Empty where a call names none of several: `tenant_required`. */
  readonly tenant: string;
  readonly eventId?: string;
  readonly contactEmail?: string;
}

/** What the services and guards of a test find instead of the service and the provider. Everything is optional. */
export interface ExhibitorTestingWorld<T = Exhibitor> extends KeptOptions {
  /** Lets the module start with `NODE_ENV=production`, where every request is logged in. Default false. */
  allowInProduction?: boolean;
  /**
   * Key of the tenant of every call and request that names none. Default `default`. A request names its tenant by `resolveTenant`
   * (without one by the route parameter `tenant`), or by its identity. Every key is a tenant. Otherwise in `override` of an application
   * with several: this is the tenant of the login only, calls must name theirs, and unknown keys of fixed tenants are `unknown_tenant`.
   */
  tenant?: string;
  /** The event of the login, of a user without an `eventId` of its own: it counts where that of a login does in production. */
  eventId?: string;
  /** The user who is logged in, for eight hours; `null`: nobody. Default: a user with the e-mail address `user@example.com`. */
  identity?: Partial<ExhibitorIdentity> | null;
  /** Exhibitors by event. An event that is not here does not exist: `not_found`. */
  events?: Record<string, readonly T[]>;
  /**
   * Exhibitors of a contact: by e-mail address, then by event, as records or as ids of records of `events`. Default: a user has
   * no exhibitor, which is 403 at `ExhibitorGuard`.
   */
  contacts?: Record<string, Record<string, readonly (string | T)[]>>;
  /** Id of an exhibitor, as the option `exhibitorId` of the module. Default: `id`, else `exhibitorId`. */
  exhibitorId?: (exhibitor: T) => string | number | undefined;
}

/** Methods of the services. For `failNext`, `stream` and `iterate` are one method, and so are `pages` and `iteratePages`. */
export type ExhibitorTestingMethod =
  'list' | 'pages' | 'iteratePages' | 'stream' | 'iterate' | 'snapshot' | 'lookup' | 'token';

const OBSERVABLES: Record<string, string> = { iterate: 'stream', iteratePages: 'pages' };

/** Issuer and client of the tenants of a test. Nothing is sent there. */
export const TESTING_ISSUER = 'https://login.test';
export const TESTING_CLIENT = 'test-client';
/** Over http, as the server of a test is: browsers send it no cookies of an https address. */
export const TESTING_CALLBACK = 'http://127.0.0.1/auth/callback';

/** What each login has of its own. */
type Login = Pick<ExhibitorIdentity, 'id' | 'expiresAt'>;

/** How long a login lasts, in ms: the default of `identityTtl`. */
const LIFETIME = 28_800_000;

/**
 * The service and the login behind an {@link ExhibitorTestingModule}. A test injects it to change who is logged in, what
 * exhibitors there are and which call fails, and to read what was called.
 *
 * @example
 * const backend = module.get(ExhibitorTestingBackend);
 * backend.failNext('lookup', 'service_unavailable');
 */
export class ExhibitorTestingBackend<T = Exhibitor> {
  readonly #world: ExhibitorTestingWorld<T>;
  readonly #events = new Map<string, readonly T[]>();
  readonly #contacts = new Map<string, readonly (string | T)[]>();
  readonly #calls: ExhibitorTestingCall[] = [];
  readonly #failures: { method: string; code: ExhibitorErrorCode; details: object }[] = [];
  #identity: (Partial<ExhibitorIdentity> & Login) | undefined;

  /** @internal */
  readonly idOf: (exhibitor: T) => string | undefined;
  /** Selected exhibitor of the user by tenant and event, kept here so that requests of a test need no cookies. @internal */
  readonly selections = new Map<string, string>();
  /** Called when exhibitors or contacts change. @internal */
  readonly onChange: (() => void)[] = [];
  /** Whether the application has several tenants, so that a call must name its own. @internal */
  hasSeveralTenants = false;

  /** @throws Error as {@link setContact} */
  constructor(world: ExhibitorTestingWorld<T> = {}) {
    this.#world = world;
    if (world.identity !== null) {
      this.signIn(world.identity ?? {});
    }
    this.idOf = world.exhibitorId === undefined ? defaultExhibitorId : idBy(world.exhibitorId);
    for (const [eventId, records] of Object.entries(world.events ?? {})) {
      this.setExhibitors(eventId, records);
    }
    for (const [email, byEvent] of Object.entries(world.contacts ?? {})) {
      for (const [eventId, exhibitors] of Object.entries(byEvent)) {
        this.setContact(eventId, email, exhibitors);
      }
    }
  }

  /** Every call of a service so far, failed ones included. A new array each time. */
  get calls(): readonly ExhibitorTestingCall[] {
    return [...this.#calls];
  }

  /** Logs a user in, instead of the one before; at a login, it is this one. Members that are not given have a default. */
  signIn(identity: Partial<ExhibitorIdentity>): void {
    const now = Date.now();
    this.#identity = { id: randomUUID(), loggedInAt: now, expiresAt: now + LIFETIME, ...identity };
    this.selections.clear();
  }

  /** The user has logged in by the routes. It is the same person, whose selections stay. @internal */
  loggedIn(identity: ExhibitorIdentity): void {
    this.#identity = identity;
  }

  /** Logs the user out: `ExhibitorGuard` answers 401. */
  signOut(): void {
    this.#identity = undefined;
    this.selections.clear();
  }

  /** Replaces the exhibitors of an event. The event need not exist. */
  setExhibitors(eventId: string, records: readonly T[]): void {
    this.#events.set(eventId, [...records]);
    this.#forgetLookups();
  }

  /**
   * Replaces the exhibitors of a contact at an event, given as records or as ids of exhibitors of the event.
   *
   * @throws Error for an id that the event does not have
   */
  setContact(eventId: string, email: string, exhibitors: readonly (string | T)[]): void {
    for (const one of exhibitors) {
      if (typeof one === 'string' && this.#find(eventId, one).length === 0) {
        const missing = `has the exhibitor '${one}', which the event '${eventId}' does not have`;
        throw new Error(`ExhibitorTestingModule: a contact ${missing}`);
      }
    }
    this.#contacts.set(JSON.stringify([eventId, email]), [...exhibitors]);
    this.#forgetLookups();
  }

  /**
   * Lets the next call of a method fail; for `lookup`, the next one that the cache does not answer (`lookupCache`), so that
   * `staleIfError` applies. Several failures of a method apply one after the other.
   *
   * @param details fields of the error: `tenant` (default: that of the call), `status`, `retryAfterMs`, `attempts`, `cause`;
   * `oauthError` of `token_rejected`, `reason` of `login_failed`, `breach` and `lastGoodPage` of `pagination_drift`
   * @example
   * backend.failNext('list', 'rate_limited', { retryAfterMs: 1_000 });
   */
  failNext(method: ExhibitorTestingMethod, code: ExhibitorErrorCode, details: object = {}): void {
    this.#failures.push({ method: OBSERVABLES[method] ?? method, code, details });
  }

  /** Of a call that names none. @internal */
  get tenant(): string | undefined {
    return this.hasSeveralTenants ? undefined : (this.#world.tenant ?? 'default');
  }

  /** Records a call. Throws its failure, where one is due; that of a lookup is thrown by its request. @internal */
  call(call: ExhibitorTestingCall): void {
    this.#calls.push(call);
    if (call.method !== 'lookup') {
      this.failIfDue(call);
    }
  }

  /** Throws the next failure of this method. @internal */
  failIfDue({ method, tenant }: Pick<ExhibitorTestingCall, 'method' | 'tenant'>): void {
    const failing = OBSERVABLES[method] ?? method;
    const index = this.#failures.findIndex((failure) => failure.method === failing);
    const [due] = index === -1 ? [] : this.#failures.splice(index, 1);
    if (due !== undefined) {
      throw createFailure(due.code, { tenant, ...due.details });
    }
  }

  /** The exhibitors of an event, `undefined` where there is none; of one contact of it, where one is given. @internal */
  exhibitorsOf(eventId: string, email?: string): readonly T[] | undefined {
    if (email === undefined) {
      return this.#events.get(eventId);
    }
    const named = this.#contacts.get(JSON.stringify([eventId, email])) ?? [];
    return named.flatMap((one) => (typeof one === 'string' ? this.#find(eventId, one) : [one]));
  }

  /** Key of the tenant of a request that names `tenant`, or none. @internal */
  tenantOf(tenant: string | undefined): string | undefined {
    return tenant ?? this.#identity?.tenant ?? this.#world.tenant ?? this.tenant;
  }

  /** @internal */
  get hasUser(): boolean {
    return this.#identity !== undefined;
  }

  /** Options of the module, of this test or else of the application. @internal */
  optionsOver(application: KeptOptions): KeptOptions {
    const { resolveTenant, resolveEvent, resolveExhibitor, lookupCache } = this.#world;
    return {
      resolveTenant: resolveTenant ?? application.resolveTenant,
      resolveEvent: resolveEvent ?? application.resolveEvent,
      resolveExhibitor: resolveExhibitor ?? application.resolveExhibitor,
      lookupCache: lookupCache ?? application.lookupCache,
    };
  }

  /** The user, where one is logged in at this tenant. @internal */
  identityAt(tenant: { key: string; tenantId: string }): ExhibitorIdentity | undefined {
    const given = this.#identity;
    if (given === undefined || (given.tenant ?? tenant.key) !== tenant.key) {
      return undefined;
    }
    const defaults: Omit<ExhibitorIdentity, keyof Login> = {
      issuer: TESTING_ISSUER,
      subject: 'test-user',
      email: 'user@example.com',
      claims: {},
      tenant: tenant.key,
      tenantId: tenant.tenantId,
      clientId: TESTING_CLIENT,
      redirectUri: TESTING_CALLBACK,
      eventId: this.#world.eventId,
    };
    return { ...defaults, ...given };
  }

  #forgetLookups(): void {
    this.onChange.forEach((changed) => changed());
  }

  #find(eventId: string, id: string): T[] {
    return (this.#events.get(eventId) ?? []).filter((record) => this.idOf(record) === id);
  }
}
