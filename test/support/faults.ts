/** Replies that prove this package. The sandbox has no kinds for them: a host needs none of them. */
import { Readable, type Duplex } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import type { ServerResponse } from 'node:http';
import type { Fault } from '../../lib/testing/index.js';
import {
  FAULT_KINDS,
  sendHalf,
  withholdBody,
  type CustomFault,
} from '../../lib/testing/sandbox/faults/fault-kinds.js';
import { pause, sendReply } from '../../lib/testing/sandbox/server/send-reply.js';

export type AnyFault = Fault | CustomFault;

const CHUNK_BYTES = 64 * 1024;

const custom = (send: CustomFault['send']): CustomFault => ({ kind: 'custom', send });

/** No bytes, or only half of the regular reply's body; the connection stays open until the client closes it. */
export const stall = (at: 'before-headers' | 'mid-body'): CustomFault =>
  custom(async (_request, response, sendRegularReply) => {
    if (at === 'mid-body') {
      await sendHalf(response, sendRegularReply);
    }
  });

/** The regular reply, one byte of its body every `msPerByte` milliseconds. */
export const drip = (msPerByte: number): CustomFault =>
  custom(async (_request, response, sendRegularReply) => {
    const body = await withholdBody(response, sendRegularReply);
    response.setHeader('content-length', body.length);
    response.flushHeaders();
    for (let sent = 0; sent < body.length && !response.destroyed; sent += 1) {
      await pause(msPerByte, response);
      response.write(body.subarray(sent, sent + 1));
    }
    response.end();
  });

/** Half of the regular reply's body, then the connection is closed; `content-length` announces the whole body. */
export const truncate = (): CustomFault =>
  custom(async ({ socket }, response, sendRegularReply) => {
    await sendHalf(response, sendRegularReply);
    socket.end();
  });

/** The regular reply without `Connection: close`, then the connection is closed, although it could be used again. */
export const closeIdle = (): CustomFault =>
  custom(({ socket }, response, sendRegularReply) => {
    response.once('finish', () => socket.destroySoon());
    return sendRegularReply();
  });

export const redirect = (location: string, status = 302): CustomFault =>
  custom(async (_request, response) => sendReply(response, status, { location }, ''));

/** JSON text of `bytes` bytes, sent as fast as the client reads. */
export const largeBody = (bytes: number): CustomFault =>
  custom((_request, response) => sendLargeJson(response, bytes));

/** The same, compressed. */
export const gzipBomb = (bytes: number): CustomFault =>
  custom((_request, response) => {
    response.setHeader('content-encoding', 'gzip');
    return sendLargeJson(response, bytes, [createGzip()]);
  });

/** One of these for a share of the requests, from 0 to 1, at random; the regular reply for the others. */
export const sometimes = (share: number, ...faults: readonly AnyFault[]): CustomFault =>
  custom(async (request, response, sendRegularReply) => {
    const fault = faults[Math.floor(Math.random() * faults.length)];
    if (Math.random() >= share || fault === undefined) {
      return sendRegularReply();
    }
    await (fault.kind === 'custom'
      ? fault.send(request, response, sendRegularReply)
      : FAULT_KINDS[fault.kind].send(fault, response, sendRegularReply));
  });

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
