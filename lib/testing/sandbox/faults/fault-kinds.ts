import type { IncomingMessage, ServerResponse } from 'node:http';
import * as v from 'valibot';
import { JSON_CONTENT_TYPE, pause, sendReply } from '../server/send-reply.js';

/**
 * A fault in the reply to a request. `delay`, and `reset` at `mid-body`, process the request and change how the regular reply is
 * sent. The others replace the reply: the request is not processed, so that for example no token is issued.
 *
 * | kind | reply |
 * |---|---|
 * | `status` | `status` with `headers` and `body` (default: a small JSON error) |
 * | `body` | `body` with `contentType` (default `application/json; charset=utf-8`) and `status` (default 200) |
 * | `delay` | the regular reply, `ms` milliseconds later |
 * | `reset` | connection reset (TCP RST) before the first byte, inside the headers, or after half of the regular reply's body |
 *
 * @example
 * const fault: Fault = { kind: 'status', status: 429, headers: { 'retry-after': '2' } };
 */
export type Fault =
  | {
      readonly kind: 'status';
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body?: string | Uint8Array;
    }
  | {
      readonly kind: 'body';
      readonly body: string | Uint8Array;
      readonly contentType?: string;
      readonly status?: number;
    }
  | { readonly kind: 'delay'; readonly ms: number }
  | { readonly kind: 'reset'; readonly at: 'before-headers' | 'mid-headers' | 'mid-body' };

type SendRegularReply = () => Promise<void>;

/** Whatever a test of this package sends. Resolves when nothing more will be sent. */
export interface CustomFault {
  readonly kind: 'custom';
  send(request: IncomingMessage, response: ServerResponse, sendRegularReply: SendRegularReply): Promise<void>;
}

/** A kind of fault: how it is given in JSON, its button on the page `/sandbox`, and how the reply is sent. */
interface FaultKind<F extends Fault> {
  /** The members of the fault in JSON, besides `kind`. */
  readonly members: { readonly [Name in Exclude<keyof F, 'kind'>]-?: v.GenericSchema<unknown, F[Name]> };
  /** Of its button, which adds the example. */
  readonly label: string;
  readonly example: F;
  /** Sends the reply. Resolves when nothing more will be sent. */
  send(fault: F, response: ServerResponse, sendRegularReply: SendRegularReply): void | Promise<void>;
}

// An RST discards data that the client has not read yet. The client gets this time to read it.
const PAUSE_BEFORE_RESET_MS = 10;

const text = v.string();
const maybeText = v.optional(text);
const whole = v.pipe(v.number(), v.integer(), v.minValue(0));
const status = v.pipe(whole, v.minValue(200), v.maxValue(599));

const KINDS: { readonly [Kind in Fault['kind']]: FaultKind<Extract<Fault, { readonly kind: Kind }>> } = {
  status: {
    members: { status, headers: v.optional(v.record(text, text)), body: maybeText },
    label: 'Status 503',
    example: { kind: 'status', status: 503, headers: { 'retry-after': '2' } },
    send(fault, response) {
      const message = `Status ${fault.status} by a fault of the sandbox`;
      const { headers = {}, body = JSON.stringify({ error: 'sandbox_fault', message }) } = fault;
      sendReply(response, fault.status, headers, body);
    },
  },
  body: {
    members: { body: text, contentType: maybeText, status: v.optional(status) },
    label: 'HTML, 200',
    example: { kind: 'body', body: '<html>', contentType: 'text/html' },
    send({ status: code = 200, contentType = JSON_CONTENT_TYPE, body }, response) {
      sendReply(response, code, { 'content-type': contentType }, body);
    },
  },
  delay: {
    members: { ms: whole },
    label: '3 s late',
    example: { kind: 'delay', ms: 3000 },
    send: ({ ms }, response, sendRegularReply) => pause(ms, response).then(sendRegularReply),
  },
  reset: {
    members: { at: v.picklist(['before-headers', 'mid-headers', 'mid-body']) },
    label: 'Reset',
    example: { kind: 'reset', at: 'mid-body' },
    async send({ at }, response, sendRegularReply) {
      const { socket } = response.req;
      if (at === 'mid-headers') {
        socket.write('HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConte');
      } else if (at === 'mid-body') {
        await sendHalf(response, sendRegularReply);
      }
      if (at !== 'before-headers') {
        await pause(PAUSE_BEFORE_RESET_MS, response);
      }
      socket.resetAndDestroy();
    },
  },
};

/** Every kind of fault, in the order of the page. @internal */
export const FAULT_KINDS: Readonly<Record<Fault['kind'], FaultKind<Fault>>> = KINDS;

/**
 * The body of the regular reply, which is not sent, with status and headers already set on the response: the REST API and
 * `oidc-provider` both end a reply with one call of `end(body)`, before the promise of the reply resolves.
 */
export async function withholdBody(
  response: ServerResponse,
  sendRegularReply: SendRegularReply,
): Promise<Buffer> {
  let body: Uint8Array | string = '';
  response.end = (given?: unknown) => {
    body = typeof given === 'string' || given instanceof Uint8Array ? given : '';
    return response;
  };
  try {
    await sendRegularReply();
    return Buffer.from(body);
  } finally {
    // The method of the class again.
    Reflect.deleteProperty(response, 'end');
  }
}

/** Sends half of the body of the regular reply, below a `content-length` of the whole. */
export async function sendHalf(response: ServerResponse, sendRegularReply: SendRegularReply): Promise<void> {
  const body = await withholdBody(response, sendRegularReply);
  response.setHeader('content-length', Math.max(body.length, 2));
  const half = body.length < 2 ? '{' : body.subarray(0, Math.floor(body.length / 2));
  await new Promise<void>((resolve) => void response.write(half, () => resolve()));
}
