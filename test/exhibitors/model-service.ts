import type { Subscription } from 'rxjs';
import type { PaginationMetadata } from '../../lib/exhibitors/pages/exhibitor-page.interface.js';
import type { FetchedPage } from '../../lib/exhibitors/pages/page-reader.js';

/** A record of the model, numbered to detect losses and duplicates. */
export interface Row {
  id: number;
}

/** The behaviour of a model, fixed before the run, so that a run can be repeated. */
export interface ModelPlan {
  rows: number;
  /** Largest page size of the service. */
  clampTo: number;
  /** Event-loop turns that each request takes, by the order of arrival; repeated from the start. */
  latencies: readonly number[];
  /** Rows to insert or delete at a position after a number of replies. */
  changes: readonly { afterAnswers: number; kind: 'insert' | 'delete'; at: number }[];
  /** Numbers of the requests that fail permanently. */
  failures: readonly number[];
  /** Numbers of the requests that are answered late, as after a retry. */
  retries: readonly number[];
}

export interface Answer {
  page: number;
  metadata: PaginationMetadata;
  rows: readonly Row[];
}

/** The list endpoint of the specification in this process, with a collection that changes while it is read. */
export class ModelService {
  readonly rows: Row[];
  readonly answers: Answer[] = [];
  readonly asked: number[] = [];
  underWay = 0;
  mostUnderWay = 0;
  changed = false;
  #nextId: number;

  constructor(private readonly plan: ModelPlan) {
    this.rows = Array.from({ length: plan.rows }, (_, id) => ({ id }));
    this.#nextId = plan.rows;
  }

  fetch = async (page: number, itemsPerPage: number, requests: Subscription): Promise<FetchedPage<Row>> => {
    const request = this.asked.push(page);
    this.underWay += 1;
    this.mostUnderWay = Math.max(this.mostUnderWay, this.underWay);
    try {
      await this.#work(request, requests);
      return this.#answer(page, itemsPerPage);
    } finally {
      this.underWay -= 1;
    }
  };

  async #work(request: number, requests: Subscription): Promise<void> {
    const { latencies, retries, failures } = this.plan;
    const latency = latencies[request % latencies.length] ?? 0;
    const turns = retries.includes(request) ? latency * 3 + 1 : latency;
    for (let turn = 0; turn <= turns; turn += 1) {
      if (requests.closed) {
        throw new Error('aborted');
      }
      await Promise.resolve();
    }
    if (requests.closed) {
      throw new Error('aborted');
    }
    if (failures.includes(request)) {
      throw new Error('down');
    }
  }

  #answer(page: number, asked: number): FetchedPage<Row> {
    const itemsPerPage = Math.min(asked, this.plan.clampTo);
    const totalPages = Math.ceil(this.rows.length / itemsPerPage);
    const rows = this.rows.slice((page - 1) * itemsPerPage, page * itemsPerPage);
    const metadata = { currentPage: page, totalCount: this.rows.length, totalPages, itemsPerPage };
    this.answers.push({ page, metadata, rows });
    for (const change of this.plan.changes) {
      if (change.afterAnswers === this.answers.length) {
        this.#change(change);
      }
    }
    return { page: { paginationMetadata: metadata, data: rows }, rows };
  }

  #change({ kind, at }: ModelPlan['changes'][number]): void {
    this.changed = true;
    if (kind === 'insert') {
      this.rows.splice(at % (this.rows.length + 1), 0, { id: (this.#nextId += 1) });
    } else if (this.rows.length > 0) {
      this.rows.splice(at % this.rows.length, 1);
    }
  }
}
