import { Inject, Injectable } from '@nestjs/common';
import { concatMap, defer, from, type Observable } from 'rxjs';
import {
  checkCall,
  checkContactEmail,
  checkLookupFilter,
  listOptions,
  lookupOptions,
  snapshotOptions,
  streamOptions,
} from '../../exhibitors/call-options.schema.js';
import {
  ExhibitorError,
  type CallOptions,
  type Exhibitor,
  type ExhibitorPage,
  type ExhibitorSnapshot,
  type ExhibitorsService,
  type ListOptions,
  type LookupFilter,
  type LookupOptions,
  type SnapshotOptions,
  type StreamOptions,
  type Tenant,
} from '../../index.js';
import { PageReader } from '../../exhibitors/pages/page-reader.js';
import { pagesOf } from '../../exhibitors/pages/read-pages.js';
import { checkEventId } from '../../model/event-id.js';
import { pageOf } from '../page-of.js';
import { ExhibitorTestingBackend } from './testing-backend.js';

/** The methods of `ExhibitorsService`; a class with private members is never the type of another one. */
type ExhibitorsMethods<T> = Omit<Pick<ExhibitorsService<T>, keyof ExhibitorsService<T>>, 'forTenant'>;

/**
 * In place of `ExhibitorsService`: answers from memory, checks arguments as the service does, records its calls, and fails
 * where the test says so.
 */
@Injectable()
export class TestingExhibitors<T = Exhibitor> implements ExhibitorsMethods<T> {
  #tenant: string | undefined;

  constructor(@Inject(ExhibitorTestingBackend) private readonly backend: ExhibitorTestingBackend<T>) {}

  forTenant(key: string): TestingExhibitors<T> {
    const view = new TestingExhibitors(this.backend);
    view.#tenant = key;
    return view;
  }

  idOf(exhibitor: T): string | undefined {
    return this.backend.records.idOf(exhibitor);
  }

  list(eventId: string, options?: ListOptions): Observable<ExhibitorPage<T>> {
    return defer(async () => {
      const tenant = this.#begin('list', { eventId }, options);
      const { page, itemsPerPage } = checkCall(listOptions, options);
      return pageOf(this.#exhibitorsOf(eventId, tenant), page, itemsPerPage);
    });
  }

  pages(eventId: string, options?: StreamOptions): Observable<ExhibitorPage<T>> {
    return defer(() => this.#read('pages', eventId, options));
  }

  stream(eventId: string, options?: StreamOptions): Observable<T> {
    return defer(() => this.#read('stream', eventId, options)).pipe(concatMap(({ data }) => from(data)));
  }

  async *iterate(eventId: string, options?: StreamOptions): AsyncIterableIterator<T> {
    for await (const { data } of this.#read('iterate', eventId, options)) {
      yield* data;
    }
  }

  iteratePages(eventId: string, options?: StreamOptions): AsyncIterableIterator<ExhibitorPage<T>> {
    return this.#read('iteratePages', eventId, options);
  }

  snapshot(eventId: string, options?: SnapshotOptions): Observable<ExhibitorSnapshot<T>> {
    return defer(async () => {
      const tenant = this.#begin('snapshot', { eventId }, options);
      checkCall(snapshotOptions, options);
      const exhibitors = this.#exhibitorsOf(eventId, tenant);
      return { exhibitors, totalCount: exhibitors.length, takenAt: new Date(), restarts: 0 };
    });
  }

  lookup(eventId: string, contactEmail: string, options?: LookupOptions): Observable<readonly T[]> {
    return defer(async () => {
      this.#begin('lookup', { eventId, contactEmail }, options);
      checkCall(lookupOptions, options);
      return this.#contactsExhibitors(eventId, contactEmail);
    });
  }

  /** The lookup of the guard. */
  async lookupFor({ key }: Tenant, eventId: string, contactEmail: string): Promise<readonly T[]> {
    this.#begin('lookup', { eventId, contactEmail }, { tenant: key });
    return this.#contactsExhibitors(eventId, contactEmail);
  }

  /** Nothing is cached. */
  async invalidateLookups(filter?: LookupFilter): Promise<void> {
    checkLookupFilter(filter);
  }

  async *#read(
    method: string,
    eventId: string,
    options: StreamOptions | undefined,
  ): AsyncGenerator<ExhibitorPage<T>> {
    const tenant = this.#begin(method, { eventId }, options);
    const call = checkCall(streamOptions, options);
    const exhibitors = this.#exhibitorsOf(eventId, tenant);
    const fetch = async (number: number, itemsPerPage: number) => {
      const page = pageOf(exhibitors, number, itemsPerPage);
      return { page, rows: page.data };
    };
    yield* pagesOf(new PageReader({ ...call, tenant, fetch }));
  }

  /** Records a call, and answers its tenant. Throws the failure that the test has set. */
  #begin(
    method: string,
    about: { eventId: string; contactEmail?: string },
    options: CallOptions | undefined,
  ): string {
    const tenant = options?.tenant ?? this.#tenant ?? this.backend.tenant;
    this.backend.call({ method, tenant, ...about }, options?.signal);
    if (this.#tenant !== undefined && tenant !== this.#tenant) {
      throw new ExhibitorError('invalid_argument', 'tenant must not be another than that of forTenant');
    }
    return tenant;
  }

  #exhibitorsOf(eventId: string, tenant: string): T[] {
    const exhibitors = this.backend.records.ofEvent(checkEventId(eventId));
    if (exhibitors === undefined) {
      throw new ExhibitorError('not_found', 'there is no such event', { tenant, status: 404, attempts: 1 });
    }
    return exhibitors;
  }

  #contactsExhibitors(eventId: string, contactEmail: string): readonly T[] {
    return this.backend.records.ofContact(checkEventId(eventId), checkContactEmail(contactEmail));
  }
}
