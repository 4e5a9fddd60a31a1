import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import type { Fault } from './faults.js';

const CHUNK = 64 * 1024;
// Long enough for the client to read what was sent before the reset overtakes it.
const SETTLE_MS = 10;

/** Sends the true reply. */
type Answer = () => Promise<void>;

/** Lets a fault happen to a reply. Resolves when nothing more will be sent for it. */
export async function answerWithFault(fault: Fault, response: ServerResponse, answer: Answer): Promise<void> {
  switch (fault.kind) {
    case 'status':
      return sendInstead(response, fault.status, fault.headers ?? {}, fault.body ?? faultBody(fault.status));
    case 'body':
      return sendInstead(response, fault.status ?? 200, contentType(fault.contentType), fault.body);
    case 'redirect':
      return sendInstead(response, fault.status ?? 302, { location: fault.location }, '');
    case 'gzipBomb':
      return sendLong(response, fault.bytes, 'gzip');
    case 'largeBody':
      return sendLong(response, fault.bytes, 'identity');
    case 'delay':
      await pause(fault.ms, response);
      return answer();
    case 'closeIdle':
      response.once('finish', () => response.req.socket.destroySoon());
      return answer();
    case 'stall':
      if (fault.at === 'before-headers') {
        return;
      }
      cutBody(response, async () => undefined);
      return answer();
    case 'truncate':
      cutBody(response, async () => response.req.socket.end());
      return answer();
    case 'drip':
      dripBody(response, fault.msPerByte);
      return answer();
    case 'reset':
      return reset(fault.at, response, answer);
  }
}

/** Waits, but not for a client that has gone. */
export function pause(ms: number, response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const finish = () => {
      clearTimeout(timer);
      response.off('close', finish);
      resolve();
    };
    const timer = setTimeout(finish, ms);
    response.once('close', finish);
  });
}

async function reset(
  at: 'before-headers' | 'mid-headers' | 'mid-body',
  response: ServerResponse,
  answer: Answer,
): Promise<void> {
  const { socket } = response.req;
  if (at === 'mid-body') {
    cutBody(response, async () => {
      await pause(SETTLE_MS, response);
      socket.resetAndDestroy();
    });
    return answer();
  }
  if (at === 'mid-headers') {
    socket.write('HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConte');
    await pause(SETTLE_MS, response);
  }
  socket.resetAndDestroy();
}

// Headers and half of the true body go out as if all were to follow; then `finish` decides.
function cutBody(response: ServerResponse, finish: () => Promise<unknown>): void {
  replaceEnd(response, async (body) => {
    response.setHeader('content-length', Math.max(body.length, 2));
    response.write(
      body.length < 2 ? Buffer.from('{') : body.subarray(0, body.length >> 1),
      () => void finish(),
    );
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

// Both our own replies and those of the provider end in one `end(body)`.
function replaceEnd(response: ServerResponse, send: (body: Buffer, end: () => void) => Promise<void>): void {
  const end = response.end.bind(response);
  response.end = (body?: unknown) => {
    void send(
      typeof body === 'string' || body instanceof Uint8Array ? Buffer.from(body) : Buffer.alloc(0),
      () => end(),
    );
    return response;
  };
}

function sendInstead(
  response: ServerResponse,
  status: number,
  headers: Readonly<Record<string, string>>,
  body: string | Uint8Array,
): void {
  response.statusCode = status;
  for (const [name, value] of Object.entries({ ...contentType(), ...headers })) {
    response.setHeader(name, value);
  }
  response.setHeader('content-length', Buffer.byteLength(body));
  response.end(body);
}

async function sendLong(
  response: ServerResponse,
  bytes: number,
  encoding: 'gzip' | 'identity',
): Promise<void> {
  response.setHeader('content-type', 'application/json');
  if (encoding === 'gzip') {
    response.setHeader('content-encoding', 'gzip');
  }
  const text = Readable.from(jsonText(bytes));
  const sent = encoding === 'gzip' ? pipeline(text, createGzip(), response) : pipeline(text, response);
  // The client of a bomb is expected to leave.
  await sent.catch(() => undefined);
}

function* jsonText(bytes: number): Generator<Buffer> {
  const filler = Buffer.alloc(CHUNK, 'x');
  yield Buffer.from('"');
  for (let left = bytes - 2; left > 0; left -= CHUNK) {
    yield filler.subarray(0, Math.min(left, CHUNK));
  }
  yield Buffer.from('"');
}

function faultBody(status: number): string {
  return JSON.stringify({ error: 'sandbox_fault', message: `The sandbox was told to answer ${status}` });
}

function contentType(type = 'application/json; charset=utf-8'): Record<string, string> {
  return { 'content-type': type };
}
