import { Inject, Injectable } from '@nestjs/common';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import type { HttpSettings } from '../options/http-options.interface.js';
import { ProblemLog } from '../problems/problem-log.service.js';
import type { Problem } from '../problems/problem.interface.js';
import type { StateKey, Tenant } from '../tenants/tenant.js';
import type { Deadline } from '../time/deadline.js';
import { Deadlines } from '../time/deadlines.service.js';
import { Transport } from '../transport/transport.service.js';
import { requestProvider, unusableReply } from './provider-request.js';

/** A document that several tenants use. */
export interface SharedSource {
  operation: 'keys' | 'metadata';
  url: string;
  /** Names the document in errors. */
  name: string;
  /** State of the limits of its fetches, which are no tenant's. */
  stateKey: StateKey;
  /** What the operator is told where the URL does not answer the document. */
  problem: (status: number) => Problem;
}

/**
 * Fetches documents of the provider for all tenants that share them, with the `http` options of the module: those of one
 * tenant must not fail the others. Only a longer `attemptTimeout` is taken over.
 */
@Injectable()
export class ProviderDocuments {
  readonly #http: HttpSettings;
  readonly #transport: Transport;
  readonly #deadlines: Deadlines;
  readonly #log: ProblemLog;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(Transport) transport: Transport,
    @Inject(Deadlines) deadlines: Deadlines,
    @Inject(ProblemLog) log: ProblemLog,
  ) {
    this.#http = settings.http;
    this.#transport = transport;
    this.#deadlines = deadlines;
    this.#log = log;
  }

  /** Documents are shared by tenants with the same dispatcher. */
  dispatcherOf(tenant: Tenant): object | undefined | Promise<object | undefined> {
    return this.#transport.dispatcherOf(tenant);
  }

  /**
   * The JSON of a document.
   *
   * @param within time limit in ms
   */
  async fetch(tenant: Tenant, source: SharedSource, within: number): Promise<unknown> {
    const { operation, url, name, stateKey, problem } = source;
    const dispatcher = await this.#transport.dispatcherOf(tenant);
    const http = {
      ...this.#http,
      attemptTimeout: Math.max(this.#http.attemptTimeout, tenant.http.attemptTimeout),
      dispatcher: dispatcher && (() => dispatcher),
    };
    const asker = tenant.sharing(http, stateKey);
    const deadline = this.#deadlines.start(within);
    const request = { operation, method: 'GET', url, template: operation } as const;
    try {
      const { status, body } = await requestProvider(this.#transport, asker, request, deadline, name);
      if (status === 200) {
        return body;
      }
      this.#log.report(tenant, problem(status));
    } finally {
      deadline.end();
    }
    throw unusableReply(name);
  }
}

/** Half of the deadline of a call, so that after a failure it has time left to go on with the last good document. */
export function patienceOf({ http }: Tenant): number {
  return http.deadline / 2;
}

/** The failure of a shared fetch is reported as one of the tenant that waits for it. */
export async function waitForShared<T>(tenant: Tenant, deadline: Deadline, shared: Promise<T>): Promise<T> {
  deadline.tenant = tenant.key;
  try {
    return await deadline.race(shared);
  } catch (error) {
    if (!isExhibitorError(error) || error.tenant === undefined || error.tenant === tenant.key) {
      throw error;
    }
    const { code, message, status, retryAfterMs, attempts } = error;
    throw new ExhibitorError(code, message, { tenant: tenant.key, status, retryAfterMs, attempts });
  }
}
