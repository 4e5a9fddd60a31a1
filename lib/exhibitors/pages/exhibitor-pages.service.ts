import { Inject, Injectable } from '@nestjs/common';
import { CHECKED_OPTIONS, type CheckedOptions } from '../../config/check-options.js';
import type { ExhibitorSettings } from '../../config/exhibitor-settings.js';
import { ProblemLog } from '../../config/problems/problem-log.service.js';
import type { Tenant } from '../../config/tenant.js';
import type { Call } from '../../call/call.js';
import { CallRunner } from '../call-runner.service.js';
import type { ListCall, StreamCall } from '../call-options.schema.js';
import { parsePage, parseRecords } from '../parse-replies.js';
import { RestClient } from '../rest-client.service.js';
import type { Page } from './page-drift.js';
import { PageReader } from './page-reader.js';

const TEMPLATE = '/api/v1/exhibitor/event/{eventId}';

/** The list endpoint (service specification, Endpoints §2). */
@Injectable()
export class ExhibitorPages {
  readonly #schema: ExhibitorSettings['exhibitorSchema'];

  constructor(
    @Inject(CallRunner) private readonly runner: CallRunner,
    @Inject(RestClient) private readonly rest: RestClient,
    @Inject(ProblemLog) private readonly log: ProblemLog,
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
  ) {
    this.#schema = settings.exhibitorSchema;
  }

  /** A reader of all pages. The tenant is found once, so that a stream never contains pages of two tenants. */
  async reader<T>(eventId: string, options: StreamCall, call: Call): Promise<PageReader<T>> {
    const tenant = await this.runner.tenantOf(options, call);
    const { deadline = tenant.http.deadline } = options;
    return new PageReader({
      ...options,
      call,
      tenant: tenant.key,
      fetch: (page, itemsPerPage, requests) =>
        requests.part(deadline).run((one) => this.page<T>(tenant, eventId, { page, itemsPerPage }, one)),
    });
  }

  /** One page, as the service answers it. */
  async page<T>(
    tenant: Tenant,
    eventId: string,
    { page: number, itemsPerPage }: Pick<ListCall, 'page' | 'itemsPerPage'>,
    call: Call,
  ): Promise<Page<T>> {
    const path = listPath(eventId, number, itemsPerPage);
    const { body } = await this.rest.get(tenant, { operation: 'list', path, template: TEMPLATE }, call);
    const wire = parsePage(body, tenant.key);
    // A copy: without a schema the page holds the array itself, which the loop of a host may empty.
    const rows = [...wire.data];
    const origin = { tenant: tenant.key, log: this.log, path: 'data' };
    const records = parseRecords<T>(wire.data, this.#schema, origin);
    const data = records instanceof Promise ? await call.race(records) : records;
    return { number, page: Object.assign(wire, { data }), rows };
  }
}

export function listPath(eventId: string, page: number, itemsPerPage: number): string {
  return `/api/v1/exhibitor/event/${encodeURIComponent(eventId)}?Page=${page}&ItemsPerPage=${itemsPerPage}`;
}
