import type { IncomingMessage, ServerResponse } from 'node:http';
import { afterAll } from '@jest/globals';
import type { INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import {
  ExhibitorModule,
  ExhibitorsService,
  type Exhibitor,
  type ExhibitorModuleOptions,
  type HttpOptions,
  type TenantOptions,
} from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/development/testing/index.js';
import { useHost } from '../support/lifetimes.js';
import type { OtherOptions, TenantsOption } from '../support/module-options.js';
import { sendJson, startServer } from '../support/server.js';
import { tenantAt } from '../support/tenant-at.js';

/** An application without controllers: the services as a host injects them. */
export interface RestHost<T = Exhibitor> {
  context: INestApplicationContext;
  exhibitors: ExhibitorsService<T>;
  close(): Promise<void>;
}

export async function startRestHost<T = Exhibitor>(options: ExhibitorModuleOptions): Promise<RestHost<T>> {
  const secrets = ['a cookie secret of the tests, 32+ characters'];
  const imports = ExhibitorModule.forRoot({ secrets, ...options });
  const context = await NestFactory.createApplicationContext(imports, { logger: ['fatal'] });
  const exhibitors = context.get<ExhibitorsService<T>>(ExhibitorsService);
  return { context, exhibitors, close: () => context.close() };
}

/** Options with the three tenants of a sandbox. */
export function threeTenants(sandbox: ExhibitorSandbox): { tenants: TenantsOption } {
  const keys = ['acme', 'globex', 'initech'];
  return { tenants: Object.fromEntries(keys.map((key) => [key, sandbox.tenantOptions(key)])) };
}

/** A request to a hand-made service, and its response. */
export interface PageRequest {
  /** Number of the REST request, from 1. */
  count: number;
  page: number;
  itemsPerPage: number;
  url: string;
  request: IncomingMessage;
  response: ServerResponse;
}

/** The reply of a hand-made service: a body to send as JSON, or nothing where it wrote the response itself. */
export type Answer = (request: PageRequest) => unknown;

/** A service whose replies a test writes; it grants every token request. */
export interface HandMadeService {
  tenant: TenantOptions;
  /** Paths and queries of the REST requests, in order of arrival. */
  urls: string[];
  /** REST requests whose connection the client closed before the reply was sent. */
  aborted: number;
  stop(): Promise<void>;
}

export async function startService(answer: Answer): Promise<HandMadeService> {
  const { add } = await startServices();
  return add(answer);
}

/** Hand-made services on one server, each below a path of its own. */
async function startServices() {
  const listeners: ((url: string, request: IncomingMessage, response: ServerResponse) => void)[] = [];
  const { url: origin, stop } = await startServer((request, response) => {
    const [, index, url = ''] = /^\/(\d+)(.*)$/.exec(request.url ?? '') ?? [];
    listeners[Number(index)]?.(url, request, response);
  });
  const add = (answer: Answer): HandMadeService => {
    const tenant = { ...tenantAt(`${origin}/${listeners.length}`), tenantId: 'hand-made' };
    const service = { tenant, urls: [], aborted: 0, stop };
    listeners.push((...received) => serve(service, answer, ...received));
    return service;
  };
  return { add, stop };
}

function serve(
  service: HandMadeService,
  answer: Answer,
  url: string,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  if (url === '/connect/token') {
    const token = { access_token: 'token-of-the-hand-made-service', expires_in: 3600, token_type: 'Bearer' };
    return sendJson(response, token);
  }
  const count = service.urls.push(url);
  response.on('close', () => {
    if (!response.writableFinished) {
      service.aborted += 1;
    }
  });
  const query = new URL(url, 'http://service').searchParams;
  const [page, itemsPerPage] = [Number(query.get('Page')), Number(query.get('ItemsPerPage'))];
  const body = answer({ count, page, itemsPerPage, url, request, response });
  if (body !== undefined) {
    sendJson(response, body);
  }
}

/**
 * One server and one application for the cases of a file. Each case is a tenant: it has its own replies, token, circuits and
 * cached lookups.
 */
export function handMadeCases<T = Exhibitor>(options: OtherOptions = {}) {
  const tenants = new Map<string, TenantOptions>();
  let services: Awaited<ReturnType<typeof startServices>>;
  const host = useHost(async () => {
    services = await startServices();
    const source = { find: (key: string) => tenants.get(key) };
    return startRestHost<T>({ tenants: source, allowedOrigins: () => true, ...options });
  });
  afterAll(() => services?.stop());
  const against = (answer: Answer, http?: HttpOptions) => {
    const service = services.add(answer);
    /** Its key. */
    const tenant = `case-${tenants.size}`;
    tenants.set(tenant, { ...service.tenant, http });
    return { service, exhibitors: host.exhibitors.forTenant(tenant), tenant };
  };
  return { against, context: () => host.context };
}

/** A page of numbered rows in the wrapper; `metadata` replaces some of its numbers. */
export function wrapper(page: number, rows: number, totalCount: number, size = 50, metadata: object = {}) {
  const totalPages = Math.ceil(totalCount / size);
  return {
    paginationMetadata: {
      currentPage: page,
      totalCount,
      totalPages,
      hasPreviousPage: page > 1,
      hasNextPage: page < totalPages,
      itemsPerPage: size,
      ...metadata,
    },
    data: Array.from({ length: rows }, (_, index) => ({ id: (page - 1) * size + index })),
  };
}

/** A correct page of `totalCount` numbered rows. */
export function honest(page: number, size: number, totalCount: number) {
  const rows = Math.max(0, Math.min(size, totalCount - (page - 1) * size));
  return wrapper(page, rows, totalCount, size);
}
