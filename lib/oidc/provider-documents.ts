import { ExhibitorError } from '../errors/exhibitor.error.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { LoginFailedError } from '../errors/login-failed.error.js';
import { weighJson } from '../model/json-values.js';
import type { HttpSettings } from '../options/http-options.interface.js';
import type { ProblemLog } from '../problems/problem-log.service.js';
import { unexpectedReply } from '../problems/provider-problems.js';
import { newStateKey, type StateKey, type Tenant } from '../tenants/tenant.js';
import type { Clock } from '../time/clock.js';
import type { Deadline } from '../time/deadline.js';
import type { Deadlines } from '../time/deadlines.service.js';
import { FairCache } from '../time/fair-cache.js';
import type { Transport } from '../transport/transport.service.js';
import { unusableReply, usableReply } from './provider-reply.js';
import { RemoteDocument } from './remote-document.js';

export interface DocumentKind<T> {
  operation: 'keys' | 'metadata';
  /** Names the document in errors. */
  name: string;
  urlOf: (id: string) => string;
  /** @throws {LoginFailedError} where the reply is no such document */
  parse: (body: unknown, tenant: Tenant) => T | Promise<T>;
}

export interface DocumentTools {
  /** Of the module. */
  http: HttpSettings;
  transport: Pick<Transport, 'send' | 'dispatcherOf'>;
  deadlines: Pick<Deadlines, 'within'>;
  clock: Clock;
  log: Pick<ProblemLog, 'report'>;
}

/** Bytes of heap for the documents of one kind: those of 20,000 tenants with two keys each. */
const MAX_BYTES = 128 * 1024 * 1024;

/** Bytes of an entry without the document. */
const ENTRY_WEIGHT = 1_024;

interface KeptDocument<T> {
  key: string;
  /** Key of the tenant that named it first. */
  tenant: string;
  document: RemoteDocument<T>;
  /** The limits of its fetches are no tenant's: the open circuit of one must not hide the document from the others. */
  stateKey: StateKey;
}

/**
 * Documents of one kind, each fetched once for all tenants that use it through the same dispatcher. Fetches have the `http`
 * options of the module: those of one tenant must not fail the others. Only longer times are taken over.
 */
export class ProviderDocuments<T> {
  readonly #kept: FairCache<KeptDocument<T>>;
  /** The document that a tenant used last. */
  readonly #lastUsed = new WeakMap<StateKey, KeptDocument<T>>();
  readonly #dispatcherKeys = new WeakMap<object, StateKey>();

  constructor(
    private readonly kind: DocumentKind<T>,
    private readonly tools: DocumentTools,
  ) {
    this.#kept = new FairCache(tools.clock, MAX_BYTES);
  }

  /** The document, see {@link RemoteDocument.read}: the one that is published now for a caller to whom `seen` is of no use. */
  async read(tenant: Tenant, id: string, deadline: Deadline, seen?: T): Promise<T> {
    const kept = this.#documentOf(tenant, id);
    // After a failure the call needs time to go on with the last good document.
    const patience = tenant.http.deadline / 2;
    const document = kept.document.read(() => this.#fetch(tenant, id, kept), patience, seen);
    return waitAs(tenant, deadline, document);
  }

  /** A tenant was forgotten: the next caller fetches its document. */
  expire(tenant: Tenant): void {
    this.#lastUsed.get(tenant.stateKey)?.document.expire();
  }

  #documentOf(tenant: Tenant, id: string): KeptDocument<T> {
    const dispatcher = this.tools.transport.dispatcherOf(tenant);
    const key = `${dispatcher === undefined ? 0 : this.#idOf(dispatcher)} ${id}`;
    let kept = this.#kept.get(key);
    if (kept === undefined) {
      const document = new RemoteDocument<T>(this.tools.clock);
      kept = { key, tenant: tenant.key, document, stateKey: newStateKey() };
      this.#keep(kept, 0);
    }
    this.#lastUsed.set(tenant.stateKey, kept);
    return kept;
  }

  /** A tenant that names other documents time and again loses its own oldest ones. */
  #keep(kept: KeptDocument<T>, bytes: number): void {
    const { key, tenant } = kept;
    this.#kept.set(key, kept, { tenant, weight: ENTRY_WEIGHT + 2 * key.length + bytes });
  }

  #idOf(dispatcher: object): number {
    const key = this.#dispatcherKeys.get(dispatcher) ?? newStateKey();
    this.#dispatcherKeys.set(dispatcher, key);
    return key.id;
  }

  async #fetch(tenant: Tenant, id: string, kept: KeptDocument<T>): Promise<T> {
    const { http, transport, deadlines, log } = this.tools;
    const { operation, name, urlOf, parse } = this.kind;
    const dispatcher = transport.dispatcherOf(tenant);
    const attemptTimeout = Math.max(http.attemptTimeout, tenant.http.attemptTimeout);
    const asker = tenant.withState(
      { ...http, attemptTimeout, dispatcher: dispatcher && (() => dispatcher) },
      kept.stateKey,
    );
    const url = urlOf(id);
    const request = { operation, method: 'GET', url, template: operation } as const;
    const limit = Math.max(http.deadline, tenant.http.deadline) / 2;
    const { status, body } = await deadlines.within(limit, (deadline) =>
      usableReply(transport.send(asker, request, deadline), name),
    );
    if (status === 200) {
      this.#keep(kept, weighJson(body));
      return parse(body, tenant);
    }
    log.report(tenant, unexpectedReply(operation, tenant, status));
    throw unusableReply(name, tenant.key);
  }
}

/** The failure of a shared fetch is reported as one of the tenant that waits for it. */
async function waitAs<T>(tenant: Tenant, deadline: Deadline, shared: Promise<T>): Promise<T> {
  deadline.tenant = tenant.key;
  try {
    return await deadline.race(shared);
  } catch (error) {
    if (!isExhibitorError(error) || error.tenant === tenant.key) {
      throw error;
    }
    const { code, message, status, retryAfterMs, attempts, cause } = error;
    const details = { tenant: tenant.key, status, retryAfterMs, attempts, cause };
    throw code === 'login_failed'
      ? new LoginFailedError(error.reason, message, details)
      : new ExhibitorError(code, message, details);
  }
}
