import type { ServerResponse } from 'node:http';
import { Readable, type Duplex } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import * as v from 'valibot';
import { JSON_CONTENT_TYPE, pause, sendReply } from '../server/send-reply.js';

/**
 * A fault in the reply to a request. `delay`, `drip`, `truncate`, `closeIdle` and faults at `mid-body` process the
 * request and change how the regular reply is sent. The others replace the reply: the request is not processed, so that
 * for example no token is issued.
 *
 * | kind | reply |
 * |---|---|
 * | `status` | `status` with `headers` and `body` (default: a small JSON error) |
 * | `body` | `body` with `contentType` (default `application/json; charset=utf-8`) and `status` (default 200) |
 * | `delay` | the regular reply, `ms` milliseconds later |
 * | `reset` | connection reset (TCP RST) before the first byte, inside the headers, or after half of the regular reply's body |
 * | `stall` | no bytes, or only half of the regular reply's body; the connection stays open until the client closes it |
 * | `drip` | the regular reply, one byte of its body every `msPerByte` milliseconds |
 * | `truncate` | half of the regular reply's body, then the connection is closed; `content-length` announces the whole body |
 * | `gzipBomb` | 200 with gzip-compressed JSON text of `bytes` bytes uncompressed |
 * | `largeBody` | 200 with JSON text of `bytes` bytes, sent as fast as the client reads |
 * | `redirect` | `status` (default 302) with `location` |
 * | `closeIdle` | the regular reply without `Connection: close`, then the connection is closed: a client that reuses the connection for its next request may get an error |
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
  | { readonly kind: 'reset'; readonly at: 'before-headers' | 'mid-headers' | 'mid-body' }
  | { readonly kind: 'stall'; readonly at: 'before-headers' | 'mid-body' }
  | { readonly kind: 'drip'; readonly msPerByte: number }
  | { readonly kind: 'truncate' }
  | { readonly kind: 'gzipBomb'; readonly bytes: number }
  | { readonly kind: 'largeBody'; readonly bytes: number }
  | { readonly kind: 'redirect'; readonly location: string; readonly status?: number }
  | { readonly kind: 'closeIdle' };

type SendRegularReply = () => Promise<void>;

/** A kind of fault: how it is given in JSON, what the page `/sandbox` says about it, and how the reply is sent. */
interface FaultKind<F extends Fault> {
  /** The members of the fault in JSON, besides `kind`. */
  readonly members: { readonly [Name in Exclude<keyof F, 'kind'>]-?: v.GenericSchema<unknown, F[Name]> };
  readonly example: F;
  readonly explanation: string;
  /** Sends the reply. Resolves when nothing more will be sent. */
  send(fault: F, response: ServerResponse, sendRegularReply: SendRegularReply): void | Promise<void>;
}

const CHUNK_BYTES = 64 * 1024;
// An RST discards data that the client has not read yet. The client gets this time to read it.
const PAUSE_BEFORE_RESET_MS = 10;

const text = v.string();
const maybeText = v.optional(text);
const whole = v.pipe(v.number(), v.integer(), v.minValue(0));
const status = v.pipe(whole, v.minValue(200), v.maxValue(599));

const KINDS: { readonly [Kind in Fault['kind']]: FaultKind<Extract<Fault, { readonly kind: Kind }>> } = {
  status: {
    members: { status, headers: v.optional(v.record(text, text)), body: maybeText },
    example: { kind: 'status', status: 503, headers: { 'retry-after': '2' } },
    explanation: 'This status; a body can be given.',
    send(fault, response) {
      const message = `Status ${fault.status} by a fault of the sandbox`;
      const { headers = {}, body = JSON.stringify({ error: 'sandbox_fault', message }) } = fault;
      sendReply(response, fault.status, headers, body);
    },
  },
  body: {
    members: { body: text, contentType: maybeText, status: v.optional(status) },
    example: { kind: 'body', body: '<html>', contentType: 'text/html' },
    explanation: 'This body; a status can be given.',
    send({ status: code = 200, contentType = JSON_CONTENT_TYPE, body }, response) {
      sendReply(response, code, { 'content-type': contentType }, body);
    },
  },
  delay: {
    members: { ms: whole },
    example: { kind: 'delay', ms: 3000 },
    explanation: 'The reply, so much later.',
    send: ({ ms }, response, sendRegularReply) => pause(ms, response).then(sendRegularReply),
  },
  drip: {
    members: { msPerByte: whole },
    example: { kind: 'drip', msPerByte: 20 },
    explanation: 'The reply, byte by byte.',
    async send({ msPerByte }, response, sendRegularReply) {
      const body = await withholdBody(response, sendRegularReply);
      response.setHeader('content-length', body.length);
      response.flushHeaders();
      for (let sent = 0; sent < body.length && !response.destroyed; sent += 1) {
        await pause(msPerByte, response);
        response.write(body.subarray(sent, sent + 1));
      }
      response.end();
    },
  },
  stall: {
    members: { at: v.picklist(['before-headers', 'mid-body']) },
    example: { kind: 'stall', at: 'before-headers' },
    explanation: 'No reply; mid-body: half of it. The connection stays open.',
    async send({ at }, response, sendRegularReply) {
      if (at === 'mid-body') {
        await sendHalf(response, sendRegularReply);
      }
    },
  },
  reset: {
    members: { at: v.picklist(['before-headers', 'mid-headers', 'mid-body']) },
    example: { kind: 'reset', at: 'mid-body' },
    explanation: 'Half of the reply, then a reset; also before-headers, mid-headers.',
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
  truncate: {
    members: {},
    example: { kind: 'truncate' },
    explanation: 'Half of the reply, then the connection is closed.',
    async send(_fault, response, sendRegularReply) {
      await sendHalf(response, sendRegularReply);
      response.req.socket.end();
    },
  },
  closeIdle: {
    members: {},
    example: { kind: 'closeIdle' },
    explanation: 'The reply, then the connection is closed, although it could be used again.',
    send(_fault, response, sendRegularReply) {
      response.once('finish', () => response.req.socket.destroySoon());
      return sendRegularReply();
    },
  },
  redirect: {
    members: { location: text, status: v.optional(status) },
    example: { kind: 'redirect', location: 'https://example.com/' },
    explanation: 'A redirect; a status can be given.',
    send({ status: code = 302, location }, response) {
      sendReply(response, code, { location }, '');
    },
  },
  largeBody: {
    members: { bytes: whole },
    example: { kind: 'largeBody', bytes: 50_000_000 },
    explanation: 'JSON of this size.',
    send: ({ bytes }, response) => sendLargeJson(response, bytes),
  },
  gzipBomb: {
    members: { bytes: whole },
    example: { kind: 'gzipBomb', bytes: 50_000_000 },
    explanation: 'JSON of this size, compressed.',
    send({ bytes }, response) {
      response.setHeader('content-encoding', 'gzip');
      return sendLargeJson(response, bytes, [createGzip()]);
    },
  },
};

/** Every kind of fault, in the order of the page. @internal */
export const FAULT_KINDS: Readonly<Record<Fault['kind'], FaultKind<Fault>>> = KINDS;

/**
 * The body of the regular reply, which is not sent, with status and headers already set on the response: the REST API and
 * `oidc-provider` both end a reply with one call of `end(body)`, before the promise of the reply resolves.
 */
async function withholdBody(response: ServerResponse, sendRegularReply: SendRegularReply): Promise<Buffer> {
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
async function sendHalf(response: ServerResponse, sendRegularReply: SendRegularReply): Promise<void> {
  const body = await withholdBody(response, sendRegularReply);
  response.setHeader('content-length', Math.max(body.length, 2));
  const half = body.length < 2 ? '{' : body.subarray(0, Math.floor(body.length / 2));
  await new Promise<void>((resolve) => void response.write(half, () => resolve()));
}

/** Sends a JSON string of `bytes` bytes, quotes included. */
async function sendLargeJson(response: ServerResponse, bytes: number, encode: Duplex[] = []): Promise<void> {
  function* chunks(): Generator<Buffer> {
    const filler = Buffer.alloc(CHUNK_BYTES, 'x');
    yield Buffer.from('"');
    for (let left = bytes - 2; left > 0; left -= CHUNK_BYTES) {
      yield filler.subarray(0, Math.min(left, CHUNK_BYTES));
    }
    yield Buffer.from('"');
  }
  response.setHeader('content-type', 'application/json');
  // The pipeline rejects if the client disconnects, which is expected with these faults.
  await pipeline([Readable.from(chunks()), ...encode, response]).catch(() => undefined);
}
