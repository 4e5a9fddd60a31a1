/** Replies that prove this package. The sandbox has no kinds for them: a host needs none of them. */
import type { ServerResponse } from 'node:http';
import type { Fault } from '../../lib/development/testing/index.js';
import { sendFault, type CustomFault } from '../../lib/development/sandbox/faults.js';
import { sendReply } from '../../lib/development/sandbox/server/sandbox-server.js';
import { pause } from './wait.js';

export type AnyFault = Fault | CustomFault;

const custom = (send: CustomFault['send']): CustomFault => ({ kind: 'custom', send });

// An RST discards data that the client has not read yet. The client gets this time to read it, in ms.
const PAUSE_BEFORE_RESET = 10;

/** A connection that is reset before the first byte, inside the headers, or after half of a body. */
export const reset = (at: 'before-headers' | 'mid-headers' | 'mid-body'): AnyFault =>
  at === 'before-headers'
    ? { kind: 'reset' }
    : custom(async ({ socket }, response) => {
        if (at === 'mid-headers') {
          socket.write('HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConte');
        } else {
          await sendHalf(response);
        }
        await pause(PAUSE_BEFORE_RESET);
        socket.resetAndDestroy();
      });

/** No bytes, or only half of a body; the connection stays open until the client closes it. */
export const stall = (at: 'before-headers' | 'mid-body'): CustomFault =>
  custom(async (_request, response) => {
    if (at === 'mid-body') {
      await sendHalf(response);
    }
  });

/** A body of which one byte comes every `msPerByte` milliseconds. */
export const drip = (msPerByte: number): CustomFault =>
  custom(async (_request, response) => {
    await sendHalf(response);
    while (!response.destroyed) {
      await pause(msPerByte);
      response.write(' ');
    }
  });

/** Half of a body, then the connection is closed. */
export const truncate = (): CustomFault =>
  custom(async ({ socket }, response) => {
    await sendHalf(response);
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

/** The beginning of a body, below a `content-length` of more. */
async function sendHalf(response: ServerResponse): Promise<void> {
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': 10_000 });
  await new Promise<void>((resolve) => void response.write('{"data":[', () => resolve()));
}
