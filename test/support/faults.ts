/** Replies that prove this package. The sandbox has no kinds for them: a host needs none of them. */
import type { ServerResponse } from 'node:http';
import type { Fault } from '../../lib/testing/index.js';
import { sendFault, type CustomFault } from '../../lib/testing/sandbox/faults.js';
import { sendReply } from '../../lib/testing/sandbox/server/sandbox-server.js';
import { pause } from './wait.js';

export type AnyFault = Fault | CustomFault;

const custom = (send: CustomFault['send']): CustomFault => ({ kind: 'custom', send });

type SendRegularReply = Parameters<CustomFault['send']>[2];

// An RST discards data that the client has not read yet. The client gets this time to read it, in ms.
const PAUSE_BEFORE_RESET = 10;

/** A connection that is reset before the first byte, inside the headers, or after half of the regular reply's body. */
export const reset = (at: 'before-headers' | 'mid-headers' | 'mid-body'): AnyFault =>
  at === 'before-headers'
    ? { kind: 'reset' }
    : custom(async ({ socket }, response, sendRegularReply) => {
        if (at === 'mid-headers') {
          socket.write('HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConte');
        } else {
          await sendHalf(response, sendRegularReply);
        }
        await pause(PAUSE_BEFORE_RESET);
        socket.resetAndDestroy();
      });

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
      await pause(msPerByte);
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

export const redirect = (location: string, status = 302): CustomFault =>
  custom(async (_request, response) =>
    sendReply(response, status, { location, 'content-type': 'application/json' }, '[]'),
  );

/** One of these for a share of the requests, from 0 to 1, at random; the regular reply for the others. */
export const sometimes = (share: number, ...faults: readonly AnyFault[]): CustomFault =>
  custom(async (request, response, sendRegularReply) => {
    const fault = faults[Math.floor(Math.random() * faults.length)];
    if (Math.random() >= share || fault === undefined) {
      return sendRegularReply();
    }
    await sendFault(fault, request, response, sendRegularReply);
  });

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
