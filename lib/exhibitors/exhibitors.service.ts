import { Inject, Injectable } from '@nestjs/common';
import type { Observable } from 'rxjs';
import type { Exhibitor } from '../model/exhibitor-request.interface.js';
import { Calls } from '../call/calls.service.js';
import { Clock } from '../call/clock.js';
import type {
  ListOptions,
  LookupFilter,
  LookupOptions,
  SnapshotOptions,
  StreamOptions,
} from './call-options.interface.js';
import {
  CallRunner,
  fromCall,
  checkCall,
  checkLookupFilter,
  checkSubject,
  listOptions,
  lookupOptions,
  snapshotOptions,
  streamOptions,
  withTenant,
} from './call-runner.service.js';
import { ExhibitorLookups } from './lookups/exhibitor-lookups.service.js';
import type { LookupSubject } from './lookups/lookup-endpoint.js';
import type { ExhibitorPage, ExhibitorSnapshot } from './pages/exhibitor-page.interface.js';
import { ExhibitorPages } from './pages/exhibitor-pages.service.js';
import { iterateOver, observe, takeSnapshot, type Reading } from './pages/read-pages.js';
import { recordsAs } from './rest-client.service.js';

/** The service of hosts. Its documentation is at the public name, in `index.ts`. */
@Injectable()
export class ExhibitorsService<T = Exhibitor> {
  #tenant: string | undefined;

  /** @internal */
  constructor(
    @Inject(ExhibitorPages) private readonly events: ExhibitorPages,
    @Inject(ExhibitorLookups) private readonly lookups: ExhibitorLookups,
    @Inject(CallRunner) private readonly runner: CallRunner,
    @Inject(Calls) private readonly calls: Calls,
    @Inject(Clock) private readonly clock: Clock,
  ) {}

  /**
   * A view bound to one tenant. Its calls need no option `tenant` and must not name another. Cheap to create.
   *
   * @example
   * const acme = exhibitors.forTenant('acme');
   */
  forTenant(key: string): ExhibitorsService<T> {
    const view = new ExhibitorsService<T>(this.events, this.lookups, this.runner, this.calls, this.clock);
    view.#tenant = key;
    return view;
  }

  /**
   * One page of an event, as the service answers it. Equal calls are separate requests. Also fails with `not_found` where the service knows no such event.
   */
  list(eventId: string, options?: ListOptions): Observable<ExhibitorPage<T>> {
    return fromCall(
      () => checkCall({ eventId }, listOptions, options, this.#tenant),
      async (checked, consumer) => {
        const { page } = await this.runner.run(checked, consumer, (tenant, call) =>
          this.events.page<T>(tenant, eventId, checked, call),
        );
        consumer.next(page);
      },
    );
  }

  /**
   * The pages of an event in order, fetched ahead. Each has its page numbers, to show progress and to resume a failed reading
   * with `startPage` and `expect`. An event without exhibitors is one empty page. Also fails with `not_found`, and with
   * `pagination_drift` (a {@link PaginationDriftError}) where the event changes during the reading or its pages contradict
   * each other.
   *
   * Nest answers an Observable that a handler returns with its **last item only**, here the last page. Collect the pages with
   * `toArray()`, return {@link snapshot}, or send the pages from an `@Sse()` handler.
   *
   * @example
   * // In a handler decorated with `@Sse('events/:eventId/progress')`:
   * return this.exhibitors.pages(eventId).pipe(map(({ paginationMetadata }) => ({ data: paginationMetadata })));
   */
  pages(eventId: string, options?: StreamOptions): Observable<ExhibitorPage<T>> {
    return observe(this.#reading(eventId, options), (page) => [page]);
  }

  /**
   * Every exhibitor of an event in order, otherwise as {@link pages}. Memory does not grow with the event.
   *
   * Nest answers it with its **last item only**, here one exhibitor: use `toArray()`, {@link snapshot} or `@Sse()`.
   *
   * @example
   * exhibitors.stream('world-2026').pipe(filter(isNew), take(10), toArray());
   */
  stream(eventId: string, options?: StreamOptions): Observable<T> {
    return observe(this.#reading(eventId, options), ({ data }) => data);
  }

  /**
   * Every exhibitor of an event for `for await`, with back-pressure: a slow loop pauses fetching, `prefetch` pages ahead of
   * the one being read. `break` aborts the requests under way. Fails as {@link pages}.
   *
   * @example
   * for await (const exhibitor of exhibitors.iterate('world-2026', { prefetch: 2 })) await store(exhibitor);
   */
  iterate(eventId: string, options?: StreamOptions): AsyncIterableIterator<T> {
    return iterateOver(this.#reading(eventId, options), ({ data }) => data);
  }

  /**
   * The pages of an event for `for await`, back-pressured as {@link iterate}: each can be stored before the next one is taken.
   * A later reading resumes with `startPage` and `expect`. Fails as {@link pages}.
   *
   * @example
   * for await (const page of exhibitors.iteratePages('world-2026')) await store(page.data, page.paginationMetadata);
   */
  iteratePages(eventId: string, options?: StreamOptions): AsyncIterableIterator<ExhibitorPage<T>> {
    return iterateOver(this.#reading(eventId, options), (page) => [page]);
  }

  /**
   * All exhibitors of an event in one consistent state. Reads the whole event, and again where it changed during the reading,
   * at most `attempts` times; then fails with `pagination_drift`. Holds the whole event in memory.
   */
  snapshot(eventId: string, options?: SnapshotOptions): Observable<ExhibitorSnapshot<T>> {
    return fromCall(
      () => checkCall({ eventId }, snapshotOptions, options, this.#tenant),
      async (checked, consumer) => {
        const call = this.calls.start(Infinity, checked.signal);
        consumer.add(call.abort);
        const whole = { ...checked, startPage: 1, maxPages: undefined, onDrift: 'error' } as const;
        const open = () => this.events.reader<T>(eventId, whole, call);
        consumer.next(await takeSnapshot(open, checked.attempts, this.clock));
      },
    );
  }

  /**
   * The exhibitors of an event for a contact e-mail address, which is used byte for byte; an empty list where there are none.
   * Answers are cached (`lookupCache`), and concurrent equal lookups share one request, so the records are frozen. An answer
   * in several pages is read to its end, within the deadline of the call; also fails with `pagination_drift` where its pages
   * contradict each other. An address that would change a path, such as `a/b@example.com`, is `invalid_argument`.
   *
   * @example
   * const mine = await firstValueFrom(exhibitors.lookup('world-2026', identity.email));
   */
  lookup(eventId: string, contactEmail: string, options?: LookupOptions): Observable<readonly T[]> {
    return fromCall(
      () => checkCall({ eventId, contactEmail }, lookupOptions, options, this.#tenant),
      async (checked, consumer) => {
        const records = await this.runner.run(checked, consumer, (tenant, call) => {
          const subject = { tenant, eventId, contactEmail };
          return checked.fresh ? this.lookups.findFresh(subject, call) : this.lookups.find(subject, call);
        });
        consumer.next(recordsAs<T>(records));
      },
    );
  }

  /** The lookup of a guard, whose tenant was checked: no promise where the answer is cached. @internal */
  lookupOf(subject: LookupSubject): readonly unknown[] | Promise<readonly unknown[]> {
    const remembered = this.lookups.remembered(subject);
    if (remembered !== undefined) {
      return remembered;
    }
    // The address of a host's session was not checked yet.
    checkSubject({ eventId: subject.eventId, contactEmail: subject.contactEmail });
    return this.calls.start(subject.tenant.http.deadline).run((call) => this.lookups.find(subject, call));
  }

  /** The id of a record, by the option `exhibitorId`. @internal */
  idOf(exhibitor: T): string | undefined {
    return this.lookups.idOf(exhibitor);
  }

  /**
   * Removes cached lookups of this process, all or those that match the filter, so that changes are seen at once. Those under way
   * are not cached. Other processes follow when `lookupCache.ttl` is over.
   *
   * @example
   * await exhibitors.invalidateLookups({ tenant: 'acme', eventId: 'world-2026' });
   */
  async invalidateLookups(filter?: LookupFilter): Promise<void> {
    this.lookups.invalidate(checkLookupFilter(withTenant(filter, this.#tenant)));
  }

  #reading(eventId: string, options: StreamOptions | undefined): () => Reading<T> {
    return () => {
      const checked = checkCall({ eventId }, streamOptions, options, this.#tenant);
      const call = this.calls.start(Infinity, checked.signal);
      return { call, open: () => this.events.reader(eventId, checked, call) };
    };
  }
}
