import { Inject, Injectable } from '@nestjs/common';
import { CHECKED_OPTIONS, type CheckedOptions } from '../../options/check-options.js';
import type { Tenant } from '../../tenants/tenant.js';
import type { Deadline } from '../../time/deadline.js';
import type { ListCall, StreamCall } from '../check-arguments.js';
import type { ExhibitorPage } from './exhibitor-page.interface.js';
import { PageReader, type FetchedPage } from './page-reader.js';
import { parsePage } from '../parse-replies.js';
import { parseRecords } from '../parse-records.js';
import { RestClient } from '../rest-client.service.js';
import { CallRunner } from '../call-runner.service.js';

const TEMPLATE = '/api/v1/exhibitor/event/{eventId}';

/** Endpoint 2 of the service: the pages of an event. */
@Injectable()
export class ExhibitorPages {
  constructor(
    @Inject(CallRunner) private readonly calls: CallRunner,
    @Inject(RestClient) private readonly rest: RestClient,
    @Inject(CHECKED_OPTIONS) private readonly options: CheckedOptions,
  ) {}

  /** One page. */
  async page<T>(eventId: string, call: ListCall, signal: AbortSignal): Promise<ExhibitorPage<T>> {
    const { page } = await this.calls.run(call, signal, (tenant, deadline) =>
      this.#fetch<T>(tenant, pathOf(eventId, call.page, call.itemsPerPage), deadline),
    );
    return page;
  }

  /** A walk over the pages of an event. Its tenant is found once: a stream never mixes two. */
  async walk<T>(eventId: string, call: StreamCall, signal: AbortSignal): Promise<PageReader<T>> {
    const tenant = await this.calls.tenant(call, signal);
    return new PageReader({
      ...call,
      tenant: tenant.key,
      fetch: (page, itemsPerPage, pageSignal) =>
        this.calls.within(tenant, call, pageSignal, (deadline) =>
          this.#fetch<T>(tenant, pathOf(eventId, page, itemsPerPage), deadline),
        ),
    });
  }

  async #fetch<T>(tenant: Tenant, path: string, deadline: Deadline): Promise<FetchedPage<T>> {
    const { body } = await this.rest.get(tenant, { operation: 'list', path, template: TEMPLATE }, deadline);
    const wire = parsePage(body, tenant.key);
    const { exhibitorSchema } = this.options.settings;
    const records = parseRecords<T>(wire.data, exhibitorSchema, { tenant: tenant.key, path: 'data' });
    const data = records instanceof Promise ? await deadline.race(records) : records;
    return { page: { ...wire, data }, rows: wire.data };
  }
}

function pathOf(eventId: string, page: number, itemsPerPage: number): string {
  return `/api/v1/exhibitor/event/${encodeURIComponent(eventId)}?Page=${page}&ItemsPerPage=${itemsPerPage}`;
}
