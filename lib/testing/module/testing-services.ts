import { Inject } from '@nestjs/common';
import { defer, type Observable } from 'rxjs';
import {
  ExhibitorsService,
  TokenService,
  type AccessToken,
  type Exhibitor,
  type ExhibitorPage,
  type ExhibitorSnapshot,
  type GetTokenOptions,
  type InvalidateOptions,
  type ListOptions,
  type LookupFilter,
  type LookupOptions,
  type SnapshotOptions,
  type StreamOptions,
  type Tenant,
} from '../../index.js';
import { ExhibitorTestingBackend } from './testing-backend.js';

// Both classes take the constructor parameters of their base class, and the backend as a property: internal services are not
// part of the public surface.

/** {@link ExhibitorsService} that records its calls and fails where the test says so. */
export class TestingExhibitors<T = Exhibitor> extends ExhibitorsService<T> {
  declare readonly backend: ExhibitorTestingBackend<T>;
  readonly #internals: ConstructorParameters<typeof ExhibitorsService>;
  /** What answers: a plain service, or a view of one bound to `#tenant`. */
  #service: ExhibitorsService<T>;
  #tenant: string | undefined;

  constructor(...internals: ConstructorParameters<typeof ExhibitorsService>) {
    super(...internals);
    this.#internals = internals;
    this.#service = new ExhibitorsService<T>(...internals);
  }

  override forTenant(key: string): ExhibitorsService<T> {
    const view = new TestingExhibitors<T>(...this.#internals);
    view.#service = this.#service.forTenant(key);
    view.#tenant = key;
    return Object.assign(view, { backend: this.backend });
  }

  override list(eventId: string, options: ListOptions = {}): Observable<ExhibitorPage<T>> {
    return this.#call('list', options, { eventId }, (call) => this.#service.list(eventId, call));
  }

  override pages(eventId: string, options: StreamOptions = {}): Observable<ExhibitorPage<T>> {
    return this.#call('pages', options, { eventId }, (call) => this.#service.pages(eventId, call));
  }

  override stream(eventId: string, options: StreamOptions = {}): Observable<T> {
    return this.#call('stream', options, { eventId }, (call) => this.#service.stream(eventId, call));
  }

  override async *iterate(eventId: string, options: StreamOptions = {}): AsyncIterableIterator<T> {
    const call = this.#named(options);
    this.#record('iterate', call.tenant, { eventId });
    yield* this.#service.iterate(eventId, call);
  }

  override snapshot(eventId: string, options: SnapshotOptions = {}): Observable<ExhibitorSnapshot<T>> {
    return this.#call('snapshot', options, { eventId }, (call) => this.#service.snapshot(eventId, call));
  }

  override lookup(
    eventId: string,
    contactEmail: string,
    options: LookupOptions = {},
  ): Observable<readonly T[]> {
    return this.#call('lookup', options, { eventId, contactEmail }, (call) =>
      this.#service.lookup(eventId, contactEmail, call),
    );
  }

  /** The lookup of the guard. */
  override async lookupFor(tenant: Tenant, eventId: string, contactEmail: string): Promise<readonly T[]> {
    this.#record('lookup', tenant.key, { eventId, contactEmail });
    return this.#service.lookupFor(tenant, eventId, contactEmail);
  }

  override invalidateLookups(filter?: LookupFilter): Promise<void> {
    return this.#service.invalidateLookups(filter);
  }

  #call<Options extends { tenant?: string }, R>(
    method: string,
    options: Options,
    about: { eventId: string; contactEmail?: string },
    work: (call: Options & { tenant: string }) => Observable<R>,
  ): Observable<R> {
    return defer(() => {
      const call = this.#named(options);
      this.#record(method, call.tenant, about);
      return work(call);
    });
  }

  #record(method: string, tenant: string, about: { eventId: string; contactEmail?: string }): void {
    const failure = this.backend.call({ method, tenant, ...about });
    if (failure !== undefined) {
      throw failure;
    }
    if (about.contactEmail !== undefined) {
      // Shows a mistake of the test before the service would turn it into an error of its own.
      this.backend.records.ofContact(about.eventId, about.contactEmail);
    }
  }

  #named<Options extends { tenant?: string }>(options: Options): Options & { tenant: string } {
    return { ...options, tenant: options.tenant ?? this.#tenant ?? this.backend.tenant };
  }
}

/** {@link TokenService} that records its calls and fails where the test says so. */
export class TestingTokens extends TokenService {
  declare readonly backend: ExhibitorTestingBackend;

  override getToken(options?: GetTokenOptions): Promise<AccessToken> {
    const tenant = options?.tenant ?? this.backend.tenant;
    const failure = this.backend.call({ method: 'token', tenant });
    return failure === undefined ? super.getToken({ ...options, tenant }) : Promise.reject(failure);
  }

  override invalidate(options?: InvalidateOptions): Promise<void> {
    return super.invalidate({ ...options, tenant: options?.tenant ?? this.backend.tenant });
  }
}

Inject(ExhibitorTestingBackend)(TestingExhibitors.prototype, 'backend');
Inject(ExhibitorTestingBackend)(TestingTokens.prototype, 'backend');
