import type { ServerResponse } from 'node:http';
import { Readable, type Duplex } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { pause, sendReply } from './send-reply.js';

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

const CHUNK_BYTES = 64 * 1024;
// An RST discards data that the client has not read yet. The client gets this time to read it.
const PAUSE_BEFORE_RESET_MS = 10;
const JSON_CONTENT_TYPE = 'application/json; charset=utf-8';

/** Sends a reply with a fault. Resolves when nothing more will be sent. */
export async function applyFault(
  fault: Fault,
  response: ServerResponse,
  sendRegularReply: () => Promise<void>,
): Promise<void> {
  const { socket } = response.req;
  switch (fault.kind) {
    case 'status': {
      const headers = { 'content-type': JSON_CONTENT_TYPE, ...fault.headers };
      return sendReply(response, fault.status, headers, fault.body ?? errorBody(fault.status));
    }
    case 'body': {
      const headers = { 'content-type': fault.contentType ?? JSON_CONTENT_TYPE };
      return sendReply(response, fault.status ?? 200, headers, fault.body);
    }
    case 'redirect': {
      const headers = { 'content-type': JSON_CONTENT_TYPE, location: fault.location };
      return sendReply(response, fault.status ?? 302, headers, '');
    }
    case 'gzipBomb':
      response.setHeader('content-encoding', 'gzip');
      return sendLargeJson(response, fault.bytes, [createGzip()]);
    case 'largeBody':
      return sendLargeJson(response, fault.bytes);
    case 'delay':
      await pause(fault.ms, response);
      break;
    case 'closeIdle':
      response.once('finish', () => socket.destroySoon());
      break;
    case 'drip':
      dripBody(response, fault.msPerByte);
      break;
    case 'truncate':
      sendHalfOfBody(response, () => socket.end());
      break;
    case 'stall':
      if (fault.at === 'before-headers') {
        return;
      }
      sendHalfOfBody(response, () => undefined);
      break;
    case 'reset':
      if (fault.at === 'before-headers') {
        return void socket.resetAndDestroy();
      }
      if (fault.at === 'mid-headers') {
        socket.write('HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConte');
        return resetAfterPause(response);
      }
      sendHalfOfBody(response, () => resetAfterPause(response));
      break;
  }
  return sendRegularReply();
}

async function resetAfterPause(response: ServerResponse): Promise<void> {
  await pause(PAUSE_BEFORE_RESET_MS, response);
  response.req.socket.resetAndDestroy();
}

// `content-length` announces the whole body, but only half of it is sent. Then `afterHalf` is called.
function sendHalfOfBody(response: ServerResponse, afterHalf: () => unknown): void {
  replaceEnd(response, async (body) => {
    response.setHeader('content-length', Math.max(body.length, 2));
    const half = body.length < 2 ? Buffer.from('{') : body.subarray(0, Math.floor(body.length / 2));
    response.write(half, () => void afterHalf());
  });
}

function dripBody(response: ServerResponse, msPerByte: number): void {
  replaceEnd(response, async (body, end) => {
    response.setHeader('content-length', body.length);
    response.flushHeaders();
    for (let sent = 0; sent < body.length; sent += 1) {
      await pause(msPerByte, response);
      if (response.destroyed) {
        return;
      }
      response.write(body.subarray(sent, sent + 1));
    }
    end();
  });
}

// Replies of the REST API and of `oidc-provider` both send their body in a single `end(body)` call.
function replaceEnd(response: ServerResponse, send: (body: Buffer, end: () => void) => Promise<void>): void {
  const end = response.end.bind(response);
  response.end = (body?: unknown) => {
    const bytes =
      typeof body === 'string' || body instanceof Uint8Array ? Buffer.from(body) : Buffer.alloc(0);
    void send(bytes, () => end());
    return response;
  };
}

async function sendLargeJson(response: ServerResponse, bytes: number, encode: Duplex[] = []): Promise<void> {
  response.setHeader('content-type', 'application/json');
  // The pipeline rejects if the client disconnects, which is expected with these faults.
  await pipeline([Readable.from(jsonText(bytes)), ...encode, response]).catch(() => undefined);
}

/** A JSON string of `bytes` bytes, quotes included. */
function* jsonText(bytes: number): Generator<Buffer> {
  const filler = Buffer.alloc(CHUNK_BYTES, 'x');
  yield Buffer.from('"');
  for (let left = bytes - 2; left > 0; left -= CHUNK_BYTES) {
    yield filler.subarray(0, Math.min(left, CHUNK_BYTES));
  }
  yield Buffer.from('"');
}

function errorBody(status: number): string {
  return JSON.stringify({ error: 'sandbox_fault', message: `Status ${status} by a fault of the sandbox` });
}
