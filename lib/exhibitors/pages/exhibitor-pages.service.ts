import { Inject, Injectable } from '@nestjs/common';
import { ExhibitorError } from '../../errors/exhibitor.error.js';
import { isRecord } from '../../model/json-values.js';
import type { Tenant } from '../../config/tenant.js';
import type { Call } from '../../call/call.js';
import { CallRunner, type ListCall, type StreamCall } from '../call-runner.service.js';
import { RestClient } from '../rest-client.service.js';
import type { ExhibitorPage, PaginationMetadata } from './exhibitor-page.interface.js';
import type { Page } from './event-size.js';
import { PageReader } from './page-reader.js';

const TEMPLATE = '/api/v1/exhibitor/event/{eventId}';

/** The list endpoint (service specification, Endpoints §2). */
@Injectable()
export class ExhibitorPages {
  constructor(
    @Inject(CallRunner) private readonly runner: CallRunner,
    @Inject(RestClient) private readonly rest: RestClient,
  ) {}

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
    const data = await this.rest.records<T>(wire.data, { tenant: tenant.key, path: 'data' }, call);
    return { number, page: Object.assign(wire, { data }), rows };
  }
}

export function listPath(eventId: string, page: number, itemsPerPage: number): string {
  return `/api/v1/exhibitor/event/${encodeURIComponent(eventId)}?Page=${page}&ItemsPerPage=${itemsPerPage}`;
}

const COUNTS = ['currentPage', 'totalCount', 'totalPages', 'itemsPerPage'] as const;
const FLAGS = ['hasPreviousPage', 'hasNextPage'] as const;

/**
 * Parses the paginated collection wrapper. Additional members are kept; the two booleans may be missing.
 *
 * @throws {ExhibitorError} `malformed_response` where it has another form
 */
export function parsePage(body: unknown, tenant: string): ExhibitorPage<unknown> {
  const problem = problemOf(body);
  if (problem === undefined) {
    return body as ExhibitorPage<unknown>;
  }
  throw new ExhibitorError('malformed_response', `not a page of exhibitors: ${problem}`, { tenant });
}

function problemOf(body: unknown): string | undefined {
  if (!isRecord(body)) {
    return 'the reply is not an object';
  }
  if (!isRecord(body['paginationMetadata'])) {
    return 'paginationMetadata is not an object';
  }
  if (!Array.isArray(body['data'])) {
    return 'data is not an array';
  }
  return metadataProblem(body['paginationMetadata']);
}

function metadataProblem(metadata: Partial<Record<keyof PaginationMetadata, unknown>>): string | undefined {
  const count = COUNTS.find((name) => !Number.isSafeInteger(metadata[name]) || Number(metadata[name]) < 0);
  if (count !== undefined) {
    return `paginationMetadata.${count} is not a whole number of 0 or more`;
  }
  const flag = FLAGS.find((name) => typeof (metadata[name] ?? false) !== 'boolean');
  return flag === undefined ? undefined : `paginationMetadata.${flag} is not true or false`;
}
