import { Inject, Injectable, type OnApplicationBootstrap, type OnModuleDestroy } from '@nestjs/common';
import { publish } from '../diagnostics/channels.js';
import { ExhibitorError, ExhibitorsService, isExhibitorError, type MirrorMessage } from '../index.js';
import { checkEventId } from '../model/path-parameters.js';
import { EventCopy, SUPERSEDED, type MirrorParts } from './copy-event.js';
import type { MirrorStatus } from './mirror-options.interface.js';
import { listEvents } from './mirror-settings.js';
import { scopeKey, type OnPage } from './mirror-store.js';
import type { MirrorScope } from './mirror-target.interface.js';

/** Injection token of the {@link MirrorParts}. @internal */
export const MIRROR_PARTS = Symbol('nestjs-exhibitor:mirror-parts');

/**
 * Copies events into the host's own database, and tells how old the copies are.
 *
 * @example
 * const [{ completedAt, held }] = await mirror.status({ tenant: 'acme', eventId: 'world-2026' });
 */
@Injectable()
export class ExhibitorMirror implements OnApplicationBootstrap, OnModuleDestroy {
  readonly #parts: MirrorParts;
  readonly #exhibitors: ExhibitorsService;
  readonly #stop = new AbortController();

  /** @internal */
  constructor(
    @Inject(MIRROR_PARTS) parts: MirrorParts,
    @Inject(ExhibitorsService) exhibitors: ExhibitorsService,
  ) {
    this.#parts = parts;
    this.#exhibitors = exhibitors;
  }

  /**
   * Copies an event now, in this process, whether or not `events` lists it. Where another copy of the event begins meanwhile,
   * this one ends without an error.
   *
   * @throws {ExhibitorError} as `iteratePages`; `pagination_drift` also where the event changed during each of five readings or
   * has an id twice; `malformed_response` where an exhibitor has no id; `aborted` when the application closes. What the target
   * throws is thrown as it is
   */
  async copy(scope: MirrorScope): Promise<MirrorStatus> {
    await this.#run(scope, () => {});
    const [status = scope] = await this.status(scope);
    return status;
  }

  /** State of the mirror of one event; or of each event of `events`; where it lists none, of each event that was copied. */
  async status(scope?: MirrorScope): Promise<MirrorStatus[]> {
    const { settings, log, store } = this.#parts;
    const texts = await store.all('status');
    const listed: Record<string, string> = {};
    for await (const { tenant, eventId } of scope === undefined ? listEvents(settings, log) : [scope]) {
      const key = scopeKey({ tenant, eventId });
      listed[key] = texts[key] ?? JSON.stringify({ tenant, eventId });
    }
    return Object.values(Object.keys(listed).length > 0 ? listed : texts).map(parseStatus);
  }

  /**
   * Lets the next copy of the event remove up to so many rows, once: the number that `status()` tells as `held`. That copy is due
   * at the next tick. Where it would remove more, it removes nothing, and the approval is used up.
   *
   * @throws {ExhibitorError} `invalid_argument` where `removals` is not a whole number from 1
   */
  async approve(scope: MirrorScope, removals: number): Promise<void> {
    if (!Number.isSafeInteger(removals) || removals < 1) {
      throw new ExhibitorError('invalid_argument', 'removals must be a whole number from 1');
    }
    const key = scopeKey(scope);
    await this.#parts.store.set('approved', { [key]: String(removals) });
    await this.#parts.store.set('due', { [key]: '0' });
  }

  /** Starts the copies of the queue; warns where there is none. */
  onApplicationBootstrap(): void {
    if (this.#parts.settings.worker) {
      this.#parts.store.start((scope, onPage) => this.#run(scope, onPage));
    }
  }

  /** Ends the copies under way: another process takes them over. */
  async onModuleDestroy(): Promise<void> {
    this.#stop.abort(new ExhibitorError('aborted', 'the application closes'));
    await this.#parts.store.close();
  }

  async #run({ tenant, eventId }: MirrorScope, onPage: OnPage): Promise<void> {
    const { log, store } = this.#parts;
    const scope = { tenant, eventId: checkEventId(eventId) };
    const context = { scope, exhibitors: this.#exhibitors, signal: this.#stop.signal, onPage };
    const copy = new EventCopy({ ...this.#parts, ...context });
    const began = performance.now();
    let end: Pick<MirrorMessage, 'outcome' | 'code'> = { outcome: 'superseded' };
    try {
      await copy.run();
      const { rows, held } = copy.counts;
      const status = { ...scope, completedAt: new Date(), rows, ...(held > 0 && { held }) };
      await store.set('status', { [scopeKey(scope)]: JSON.stringify(status) });
      log.held(scope, held);
      end = { outcome: held > 0 ? 'held' : 'completed' };
    } catch (error) {
      if (error !== SUPERSEDED) {
        end = { outcome: 'failed', ...(isExhibitorError(error) && { code: error.code }) };
        throw error;
      }
    } finally {
      publish('mirror', () => ({ ...scope, ...copy.counts, ...end, durationMs: performance.now() - began }));
    }
  }
}

function parseStatus(text: string): MirrorStatus {
  return JSON.parse(text, (name, value) => (name === 'completedAt' ? new Date(value) : value));
}
