import type { MirrorTarget, MirrorBatch, MirrorScope, Row } from '../../lib/mirror/index.js';

/** A database in memory that keeps the contract of a target, and what a test wants to know of it. */
export class MemoryTarget implements MirrorTarget {
  readonly begun: MirrorScope[] = [];
  readonly batches: (MirrorBatch & { scope: MirrorScope; refused: boolean })[] = [];
  readonly #generations = new Map<string, number>();
  readonly #rows = new Map<string, Map<string, Row>>();
  /** Called before each step: to wait, to fail, or to change the event meanwhile. */
  before: (step: 'begin' | 'known' | 'apply', scope: MirrorScope) => unknown = () => {};

  async begin(scope: MirrorScope): Promise<number> {
    await this.before('begin', scope);
    const generation = (this.#generations.get(nameOf(scope)) ?? 0) + 1;
    this.#generations.set(nameOf(scope), generation);
    this.begun.push(scope);
    return generation;
  }

  async *known(scope: MirrorScope): AsyncGenerator<{ id: string; digest: string }> {
    await this.before('known', scope);
    for (const { id, digest } of this.rowsOf(scope)) {
      yield { id, digest };
    }
  }

  async apply(scope: MirrorScope, batch: MirrorBatch): Promise<boolean> {
    await this.before('apply', scope);
    const refused = batch.generation < (this.#generations.get(nameOf(scope)) ?? 0);
    this.batches.push({ ...batch, scope, refused });
    if (refused) {
      return false;
    }
    const rows = this.#rows.get(nameOf(scope)) ?? new Map<string, Row>();
    this.#rows.set(nameOf(scope), rows);
    for (const row of [...batch.added, ...batch.changed]) {
      rows.set(row.id, row);
    }
    for (const id of batch.removed) {
      rows.delete(id);
    }
    return true;
  }

  rowsOf(scope: MirrorScope): Row[] {
    return [...(this.#rows.get(nameOf(scope))?.values() ?? [])];
  }

  /** Rows that were written since the last call. */
  written(): { added: number; changed: number; removed: number } {
    const total = { added: 0, changed: 0, removed: 0 };
    for (const { added, changed, removed, refused } of this.batches.splice(0)) {
      if (!refused) {
        total.added += added.length;
        total.changed += changed.length;
        total.removed += removed.length;
      }
    }
    return total;
  }
}

function nameOf({ tenant, eventId }: MirrorScope): string {
  return JSON.stringify([tenant, eventId]);
}
