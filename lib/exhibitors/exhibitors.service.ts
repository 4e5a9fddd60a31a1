import { Inject, Injectable } from '@nestjs/common';
import type { Observable } from 'rxjs';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import type { Exhibitor } from '../model/exhibitor-request.interface.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import type {
  ListOptions,
  LookupFilter,
  LookupOptions,
  SnapshotOptions,
  StreamOptions,
} from './call-options.interface.js';
import { fromCall } from './call-scope.js';
import {
  checkContactEmail,
  checkEventId,
  checkListOptions,
  checkLookupFilter,
  checkLookupOptions,
  checkSnapshotOptions,
  checkStreamOptions,
  type StreamCall,
} from './check-arguments.js';
import type { ExhibitorPage, ExhibitorSnapshot } from './pages/exhibitor-page.interface.js';
import { ExhibitorLookups } from './lookups/exhibitor-lookups.service.js';
import { ExhibitorPages } from './pages/exhibitor-pages.service.js';
import { parsedRecords } from './parse-records.js';
import { fromPages, iteratePages, type OpenReader } from './pages/read-pages.js';
import { CallRunner } from './call-runner.service.js';
import { takeSnapshot } from './pages/take-snapshot.js';

/**
 * The exhibitors of events: one page, whole events, and those of a contact. Every Observable is cold; unsubscribing, or
 * the option `signal`, aborts what is under way on the wire. Wrong arguments arrive as an error too, with
 * `invalid_argument`, and nothing is sent.
 *
 * Every method fails with an {@link ExhibitorError}. Common to all are the codes `invalid_argument`, `unknown_tenant`,
 * `tenant_required`, `token_rejected`, `token_unavailable`, `access_denied`, `request_rejected`, `rate_limited`,
 * `service_unavailable`, `deadline_exceeded`, `malformed_response` and `aborted`.
 *
 * @example
 * const { data, paginationMetadata } = await firstValueFrom(exhibitors.list('world-2026', { tenant: 'acme' }));
 */
@Injectable()
export class ExhibitorsService<T = Exhibitor> {
  #tenant: string | undefined;

  constructor(
    @Inject(ExhibitorPages) private readonly reader: ExhibitorPages,
    @Inject(ExhibitorLookups) private readonly lookups: ExhibitorLookups,
    @Inject(CallRunner) private readonly calls: CallRunner,
    @Inject(Clock) private readonly clock: Clock,
  ) {}

  /**
   * A view for one tenant: its calls need no option `tenant`, and may name no other. Cheap, so make one where it is used.
   *
   * @example
   * const acme = exhibitors.forTenant('acme');
   */
  forTenant(key: string): ExhibitorsService<T> {
    const view = new ExhibitorsService<T>(this.reader, this.lookups, this.calls, this.clock);
    view.#tenant = key;
    return view;
  }

  /**
   * One page of an event, as the service answers it. Calls are never shared: equal ones are separate requests.
   * Fails with `not_found` where the service knows no such event.
   */
  list(eventId: string, options?: ListOptions): Observable<ExhibitorPage<T>> {
    return fromCall(
      () => ({ ...checkListOptions(this.#bound(options)), eventId: checkEventId(eventId) }),
      (call, signal) => this.reader.page<T>(call.eventId, call, signal),
    );
  }

  /**
   * The pages of an event in order, fetched ahead; each carries its numbers, so progress can be shown and a failed reading
   * resumed with `startPage`. An event without exhibitors is one empty page. Fails with `pagination_drift` where the event
   * changes meanwhile or its pages contradict themselves (a {@link PaginationDriftError} says where), and with `not_found`.
   *
   * Nest answers a controller's Observable with its **last item only**: returned from a handler as it is, this is the last
   * page. Collect the pages with `toArray()`, return {@link snapshot}, or send them one by one from an `@Sse()` handler.
   *
   * @example
   * // In a handler decorated with `@Sse('events/:eventId/progress')`:
   * return this.exhibitors.pages(eventId).pipe(map(({ paginationMetadata }) => ({ data: paginationMetadata })));
   */
  pages(eventId: string, options?: StreamOptions): Observable<ExhibitorPage<T>> {
    return fromPages(...this.#walk(eventId, options), (page, subscriber) => subscriber.next(page));
  }

  /**
   * Every exhibitor of an event, one by one, in order; otherwise as {@link pages}. Memory does not grow with the event.
   *
   * Nest answers a controller's Observable with its **last item only**: returned from a handler as it is, this is one
   * exhibitor. Use `toArray()`, {@link snapshot} or an `@Sse()` handler.
   *
   * @example
   * exhibitors.stream('world-2026').pipe(filter(isNew), take(10), toArray());
   */
  stream(eventId: string, options?: StreamOptions): Observable<T> {
    return fromPages(...this.#walk(eventId, options), ({ data }, subscriber) => {
      for (const exhibitor of data) {
        if (subscriber.closed) {
          return;
        }
        subscriber.next(exhibitor);
      }
    });
  }

  /**
   * Every exhibitor of an event for `for await`, with back-pressure: however slow the loop is, no more than `prefetch`
   * pages are fetched behind the one being read. `break` aborts what is under way. Fails as {@link pages} does.
   *
   * @example
   * for await (const exhibitor of exhibitors.iterate('world-2026', { prefetch: 2 })) await store(exhibitor);
   */
  iterate(eventId: string, options?: StreamOptions): AsyncIterableIterator<T> {
    return iteratePages(...this.#walk(eventId, options));
  }

  /**
   * All exhibitors of an event in one consistent state: reads the whole event, and starts over when it changes meanwhile,
   * `attempts` times at most; then fails with `pagination_drift`. Holds the whole event in memory.
   */
  snapshot(eventId: string, options?: SnapshotOptions): Observable<ExhibitorSnapshot<T>> {
    return fromCall(
      () => ({ ...checkSnapshotOptions(this.#bound(options)), eventId: checkEventId(eventId) }),
      (call, signal) => {
        const walk = { ...call, startPage: 1, maxPages: undefined, onDrift: 'error' } as const;
        const open = () => this.reader.walk<T>(call.eventId, walk, signal);
        return takeSnapshot({ open, epochMs: () => this.clock.epochMs() }, call.attempts, signal);
      },
    );
  }

  /**
   * The exhibitors of an event that belong to a contact e-mail address, used byte for byte; an empty list where there are
   * none. Answers are cached (`lookupCache`) and equal lookups under way share one request, so the records are frozen.
   * Where the service answers with several pages, these are the exhibitors of the page it gave.
   *
   * @example
   * const mine = await firstValueFrom(exhibitors.lookup('world-2026', identity.email));
   */
  lookup(eventId: string, contactEmail: string, options?: LookupOptions): Observable<readonly T[]> {
    return fromCall(
      () => ({
        ...checkLookupOptions(this.#bound(options)),
        eventId: checkEventId(eventId),
        contactEmail: checkContactEmail(contactEmail),
      }),
      async (call, signal) => {
        const { eventId: event, contactEmail: email, fresh } = call;
        const records = await this.calls.run(call, signal, (tenant, deadline) => {
          const subject = { tenant, eventId: event, contactEmail: email };
          return fresh ? this.lookups.findFresh(subject, deadline) : this.lookups.find(subject, deadline);
        });
        return parsedRecords<T>(records);
      },
    );
  }

  /** The lookup of the guard, whose tenant is found already. Rejects as {@link lookup} does. @internal */
  async lookupFor(
    tenant: Tenant,
    eventId: string,
    contactEmail: string,
    signal?: AbortSignal,
  ): Promise<readonly T[]> {
    const subject = { tenant, eventId: checkEventId(eventId), contactEmail: checkContactEmail(contactEmail) };
    const find = (deadline: Parameters<ExhibitorLookups['find']>[1]) => this.lookups.find(subject, deadline);
    return parsedRecords<T>(await this.calls.within(tenant, {}, signal, find));
  }

  /**
   * Forgets cached lookups, all or those the filter names, also those under way. Call it when a contact was given another
   * exhibitor and must see it at once.
   *
   * @example
   * await exhibitors.invalidateLookups({ tenant: 'acme', eventId: 'world-2026' });
   */
  async invalidateLookups(filter?: LookupFilter): Promise<void> {
    this.lookups.forget(checkLookupFilter(this.#bound(filter)));
  }

  #walk(
    eventId: string,
    options: StreamOptions | undefined,
  ): [check: () => StreamCall & { eventId: string }, open: OpenReader<StreamCall & { eventId: string }, T>] {
    return [
      () => ({ ...checkStreamOptions(this.#bound(options)), eventId: checkEventId(eventId) }),
      (call, signal) => this.reader.walk<T>(call.eventId, call, signal),
    ];
  }

  /** Options with the tenant of this view. One that names another is a mistake that must not reach its data. */
  #bound<Options extends { tenant?: string }>(
    options: Options | undefined,
  ): Options | { tenant: string } | undefined {
    const tenant = this.#tenant;
    if (tenant === undefined) {
      return options;
    }
    const named = options?.tenant ?? tenant;
    if (named === tenant) {
      return { ...options, tenant };
    }
    throw new ExhibitorError('invalid_argument', 'tenant must not be another than that of forTenant');
  }
}
