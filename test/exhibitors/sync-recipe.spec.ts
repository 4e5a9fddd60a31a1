/** The recipe of docs/reading-events.md, its own text, killed at every page of an event that changes. */
import { describe, expect, it } from '@jest/globals';
import { isExhibitorError, type ExhibitorsService } from '../../lib/index.js';
import { loadSnippets } from '../support/snippets.js';
import { handMadeCases, wrapper, type PageRequest } from './rest-host.js';

interface Row {
  id: number;
  hall: string;
}
interface Progress {
  state: 'reading' | 'complete';
  reading: number;
  lastPage: number;
}
type Sync = (exhibitors: ExhibitorsService<Row>, eventId: string, copy: World) => Promise<void>;

/** Positions at which exhibitors leave an event, and then join it. */
interface Change {
  leave: readonly number[];
  join: readonly number[];
}

const PAGE_SIZE = 5;
const byId = (rows: readonly Row[]): Row[] => rows.toSorted((one, other) => one.id - other.id);

/** An event of 12 exhibitors in pages of 5, and its copy in tables of a host, which survive a kill. */
class World {
  rows: Row[] = [];
  #nextId = 0;
  readonly #counts = new Set<number>();

  #progress: Progress | undefined;
  #copy = new Map<number, { row: Row; reading: number }>();
  /** Called before and after each transaction. */
  #around: () => Promise<void> | void = () => {};

  /** @param ending what the service answers to a page that it does not have */
  constructor(readonly ending: 'an empty page' | 404) {
    this.change({ leave: [], join: Array.from({ length: 12 }, (_, at) => at) });
  }

  /** The event then has a count that it never had before: a change can be seen. */
  change({ leave, join }: Change): void {
    leave.forEach((at) => this.rows.splice(at % (this.rows.length || 1), 1));
    join.forEach((at) => this.#join(at));
    while (this.#counts.has(this.rows.length)) {
      this.#join(0);
    }
    this.#counts.add(this.rows.length);
  }

  #join(at: number): void {
    this.rows.splice(at % (this.rows.length + 1), 0, { id: (this.#nextId += 1), hall: 'A' });
  }

  answer({ page, response }: PageRequest): unknown {
    const { paginationMetadata } = wrapper(page, 0, this.rows.length, PAGE_SIZE);
    if (page > Math.max(1, paginationMetadata.totalPages) && this.ending === 404) {
      return void response.writeHead(404).end();
    }
    return { paginationMetadata, data: this.rows.slice((page - 1) * PAGE_SIZE, page * PAGE_SIZE) };
  }

  get copied(): Row[] {
    return byId([...this.#copy.values()].map(({ row }) => row));
  }

  async progress(): Promise<Progress | undefined> {
    return structuredClone(this.#progress);
  }

  async save(progress: Progress, rows: readonly Row[]): Promise<void> {
    await this.#around();
    this.#progress = structuredClone(progress);
    rows.forEach((row) => this.#copy.set(row.id, { row, reading: progress.reading }));
    await this.#around();
  }

  async complete(progress: Progress): Promise<void> {
    await this.#around();
    this.#progress = structuredClone(progress);
    this.#copy = new Map([...this.#copy].filter(([, { reading }]) => reading === progress.reading));
    await this.#around();
  }

  /** A process of the host that is killed at a moment, where it has so many. */
  async run(killedAt = Infinity): Promise<'killed' | Progress['state'] | undefined> {
    const { exhibitors } = against((request) => this.answer(request));
    let moment = 0;
    const killed = new Promise<'killed'>((resolve) => {
      this.#around = () => {
        moment += 1;
        if (moment - 1 === killedAt) {
          resolve('killed');
          return new Promise(() => {});
        }
        return undefined;
      };
    });
    const end = sync(exhibitors, 'event', this).catch((error: unknown) => {
      if (!isExhibitorError(error) || error.code !== 'pagination_drift') {
        throw error;
      }
    });
    return (await Promise.race([end, killed])) ?? this.#progress?.state;
  }

  /** Runs until the copy is complete. */
  async finish(): Promise<void> {
    const end = await this.run();
    // Where the event has changed since the last run, the first one ends with pagination_drift.
    expect(end === 'complete' ? end : await this.run()).toBe('complete');
    expect(this.copied).toEqual(byId(this.rows));
  }
}

const { against } = handMadeCases<Row>();
const { sync } = await loadSnippets<{ sync: Sync }>('reading-events.md', 'sync');

const CHANGES: readonly Change[] = [
  { leave: [], join: [0] },
  { leave: Array<number>(9).fill(0), join: [] },
  { leave: [7], join: [0, 3] },
];
/** Three pages and the end: before and after each of the four transactions. */
const MOMENTS = [0, 1, 2, 3, 4, 5, 6, 7];

describe('the copy of an event', () => {
  it.each([
    ['an empty page' as const, CHANGES],
    [404 as const, CHANGES.slice(1, 2)],
  ])('is that of the service after a kill at any moment, where it ends with %s', async (ending, changes) => {
    for (const change of changes) {
      for (const moment of MOMENTS) {
        const killed = new World(ending);
        expect(await killed.run(moment)).toBe('killed');
        killed.change(change);
        await killed.finish();
        killed.change({ leave: [9, 10], join: [4] });
        await killed.finish();
        // No number shows this.
        killed.rows = killed.rows.map((row) => ({ ...row, hall: 'B' }));
        await killed.finish();
      }
    }
  });

  it('may differ where as many joined as left, until the next reading', async () => {
    const killed = new World(404);
    const [, ...others] = killed.rows;
    // Pages 1 and 2 are stored.
    expect(await killed.run(3)).toBe('killed');
    killed.rows = [...others, { id: 99, hall: 'A' }];
    expect(await killed.run()).toBe('complete');
    // 1 has left, and 11 has moved to page 2.
    expect(killed.copied.map(({ id }) => id)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 99]);
    await killed.finish();
  });
});
