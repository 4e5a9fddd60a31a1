import { Inject, Injectable } from '@nestjs/common';
import { CHECKED_OPTIONS, type CheckedOptions } from '../../config/check-options.js';
import type { ExhibitorSettings } from '../../config/exhibitor-settings.js';
import { ProblemLog } from '../../config/problems/problem-log.service.js';
import type { Tenant } from '../../config/tenant.js';
import type { Deadline } from '../../call/deadline.js';
import { CallRunner, type Call, type RunningCall } from '../call-runner.service.js';
import type { ListCall, StreamCall } from '../call-options.schema.js';
import { parsePage, parseRecords } from '../parse-replies.js';
import { RestClient } from '../rest-client.service.js';
import type { ExhibitorPage } from './exhibitor-page.interface.js';
import type { Page } from './page-drift.js';
import { PageReader } from './page-reader.js';

const TEMPLATE = '/api/v1/exhibitor/event/{eventId}';

/** The list endpoint (service specification, Endpoints §2). */
@Injectable()
export class ExhibitorPages {
  readonly #schema: ExhibitorSettings['exhibitorSchema'];

  constructor(
    @Inject(CallRunner) private readonly calls: CallRunner,
    @Inject(RestClient) private readonly rest: RestClient,
    @Inject(ProblemLog) private readonly log: ProblemLog,
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
  ) {
    this.#schema = settings.exhibitorSchema;
  }

  async page<T>(eventId: string, call: RunningCall<ListCall>): Promise<ExhibitorPage<T>> {
    const { page } = await this.calls.run(call, (tenant, deadline) =>
      this.#fetch<T>(tenant, eventId, call, deadline),
    );
    return page;
  }

  /** A reader of all pages. The tenant is found once, so that a stream never contains pages of two tenants. */
  async reader<T>(eventId: string, call: Call<StreamCall>): Promise<PageReader<T>> {
    const tenant = await this.calls.tenant(call);
    const { deadline } = call;
    return new PageReader({
      ...call,
      tenant: tenant.key,
      fetch: (page, itemsPerPage, consumer) =>
        this.calls.within(tenant, { deadline, consumer }, (limit) =>
          this.#fetch<T>(tenant, eventId, { page, itemsPerPage }, limit),
        ),
    });
  }

  async #fetch<T>(
    tenant: Tenant,
    eventId: string,
    { page: number, itemsPerPage }: Pick<ListCall, 'page' | 'itemsPerPage'>,
    deadline: Deadline,
  ): Promise<Page<T>> {
    const path = listPath(eventId, number, itemsPerPage);
    const { body } = await this.rest.get(tenant, { operation: 'list', path, template: TEMPLATE }, deadline);
    const wire = parsePage(body, tenant.key);
    const rows = wire.data;
    const origin = { tenant: tenant.key, log: this.log, path: 'data' };
    const records = parseRecords<T>(rows, this.#schema, origin);
    const data = records instanceof Promise ? await deadline.race(records) : records;
    return { number, page: Object.assign(wire, { data }), rows };
  }
}

export function listPath(eventId: string, page: number, itemsPerPage: number): string {
  return `/api/v1/exhibitor/event/${encodeURIComponent(eventId)}?Page=${page}&ItemsPerPage=${itemsPerPage}`;
}
