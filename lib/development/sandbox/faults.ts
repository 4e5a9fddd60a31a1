import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import * as v from 'valibot';
import { parseJson } from './json.js';
import { OPERATIONS, type SandboxOperation } from './server/operations.js';
import type { SandboxRequest } from './server/request-log.js';
import { JSON_CONTENT_TYPE, sendReply } from './server/sandbox-server.js';

const text = v.string();
const maybeText = v.optional(text);
const whole = v.pipe(v.number(), v.integer(), v.minValue(0));
const status = v.pipe(whole, v.minValue(200), v.maxValue(599));
const operation = v.picklist(OPERATIONS);

const faultSchema = v.variant('kind', [
  v.strictObject({
    kind: v.literal('status'),
    status,
    headers: v.optional(v.record(text, text)),
    body: maybeText,
  }),
  v.strictObject({
    kind: v.literal('body'),
    body: text,
    contentType: maybeText,
    status: v.optional(status),
  }),
  v.strictObject({ kind: v.literal('delay'), ms: whole }),
  v.strictObject({ kind: v.literal('reset') }),
]);
const conditions = v.strictObject({
  operation: v.optional(v.union([operation, v.pipe(v.array(operation), v.readonly())])),
  tenant: maybeText,
  grantType: maybeText,
});
/** The arguments of `failNext` in JSON. `lazy` instead of `union`, whose error does not name the field inside. */
const faultInJson = v.strictObject({
  match: v.lazy((input) => (typeof input === 'string' ? operation : conditions)),
  fault: faultSchema,
  times: v.optional(v.number(), 1),
});

/**
 * A fault in the reply to a request. `delay` processes the request and sends the regular reply later. The others replace the
 * reply: the request is not processed, so that for example no token is issued.
 *
 * | kind | reply |
 * |---|---|
 * | `status` | `status` with `headers` and `body` (default: a small JSON error) |
 * | `body` | `body` with `contentType` (default `application/json; charset=utf-8`) and `status` (default 200) |
 * | `delay` | the regular reply, `ms` milliseconds later |
 * | `reset` | connection reset (TCP RST) before the first byte |
 *
 * @example
 * const fault: Fault = { kind: 'status', status: 429, headers: { 'retry-after': '2' } };
 */
export type Fault =
  | {
      kind: 'status';
      status: number;
      headers?: Record<string, string> | undefined;
      body?: string | undefined;
    }
  | { kind: 'body'; body: string; contentType?: string | undefined; status?: number | undefined }
  | { kind: 'delay'; ms: number }
  | { kind: 'reset' };

/** Whatever a test of this package sends. Resolves when nothing more will be sent. */
export interface CustomFault {
  readonly kind: 'custom';
  send(
    request: IncomingMessage,
    response: ServerResponse,
    sendRegularReply: () => Promise<void>,
  ): Promise<void>;
}

/**
 * The requests that a fault applies to: those of an operation, or those that meet every given condition. `operation` is one or
 * several: a provider that is down answers neither `authorize` nor `token`, `userinfo` or `keys`. `tenant` is the key of the tenant of
 * the client, else the one that `X-Tenant-Id` names; `grantType` the `grant_type` of a token request.
 *
 * @example
 * const match: FaultMatch = { operation: 'token', tenant: 'acme', grantType: 'client_credentials' };
 */
export type FaultMatch =
  | SandboxOperation
  | {
      operation?: SandboxOperation | readonly SandboxOperation[] | undefined;
      tenant?: string | undefined;
      grantType?: string | undefined;
    };

/** Faults that no request has met yet. A request meets the oldest one that matches. */
export class FaultQueue {
  #pending: { readonly match: FaultMatch; readonly fault: Fault | CustomFault; remaining: number }[] = [];

  add(match: FaultMatch, fault: Fault | CustomFault, times: number): void {
    if (!(times === Infinity || (Number.isInteger(times) && times > 0))) {
      throw new RangeError('failNext: times must be an integer from 1, or Infinity');
    }
    this.#pending.push({ match, fault, remaining: times });
  }

  /** @throws Error that names each wrong field, and what is expected there. */
  addJson(json: string): void {
    const { match, fault, times } = parseJson(faultInJson, json, 'the body');
    this.add(match, fault, times);
  }

  /** The oldest first. `Infinity` is `null` in JSON. */
  toJSON(): readonly unknown[] {
    return this.#pending;
  }

  /** Returns the fault for this request, if any, and removes it from the queue after its last use. */
  take(request: SandboxRequest): Fault | CustomFault | undefined {
    const pending = this.#pending.find(({ match }) => matches(match, request));
    if (pending) {
      pending.remaining -= 1;
      this.#pending = this.#pending.filter(({ remaining }) => remaining > 0);
    }
    return pending?.fault;
  }

  clear(): void {
    this.#pending = [];
  }
}

function matches(match: FaultMatch, request: SandboxRequest): boolean {
  if (typeof match === 'string') {
    return match === request.operation;
  }
  const { operation: of = request.operation, tenant, grantType } = match;
  return (
    [of].flat().includes(request.operation) &&
    (tenant === undefined || tenant === request.tenantKey) &&
    (grantType === undefined || grantType === request.body['grant_type'])
  );
}

/** Sends the reply that a fault makes. Resolves when nothing more will be sent. */
export async function sendFault(
  fault: Fault | CustomFault,
  request: IncomingMessage,
  response: ServerResponse,
  sendRegularReply: () => Promise<void>,
): Promise<void> {
  switch (fault.kind) {
    case 'status': {
      const message = `Status ${fault.status} by a fault of the sandbox`;
      const { headers = {}, body = JSON.stringify({ error: 'sandbox_fault', message }) } = fault;
      return sendReply(response, fault.status, headers, body);
    }
    case 'body': {
      const { contentType = JSON_CONTENT_TYPE, body } = fault;
      return sendReply(response, fault.status ?? 200, { 'content-type': contentType }, body);
    }
    case 'delay':
      await pause(fault.ms, undefined, { ref: false });
      return sendRegularReply();
    case 'reset':
      request.socket.resetAndDestroy();
      return undefined;
    case 'custom':
      return fault.send(request, response, sendRegularReply);
  }
}
