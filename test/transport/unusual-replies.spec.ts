import { createServer } from 'node:net';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Sender, tenantAt } from './transport-bench.js';
import { follow, type TestServer } from '../support/server.js';

let server: TestServer;
let sender: Sender | undefined;

afterEach(async () => {
  await sender?.close();
  await server?.stop();
});

const JSON_TYPE = 'content-type: application/json\r\n';
const OK = `HTTP/1.1 200 OK\r\n${JSON_TYPE}`;
const CHUNKED = `${OK}transfer-encoding: chunked\r\n\r\n1\r\n[\r\n`;
const PAGE = `${OK}content-length: 2\r\n\r\n[]`;
/** Replies that end in unusual ways. The server closes the connection after `RESET` and `END`. */
const [RESET, END] = ['reset', 'end'];
const ENDS = {
  'a usual one': PAGE,
  'interim responses': `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\n\r\n${PAGE}`,
  'an upgrade': `HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n${PAGE}`,
  'names of prototypes': PAGE.replace(
    JSON_TYPE,
    `${JSON_TYPE}__proto__: a\r\nconstructor: b\r\nconstructor: c\r\n`,
  ),
  'a status of 000': PAGE.replace('200', '000'),
  'a status of 999': PAGE.replace('200', '999'),
  '204 with a body': PAGE.replace('200', '204'),
  '304 with a length': `HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n`,
  'a length without a body': `${OK}content-length: 9\r\n\r\n`,
  'a reset': `${OK}content-length: 9\r\n\r\n[1,${RESET}`,
  'an early end': `${OK}content-length: 9\r\n\r\n[1,${END}`,
  'two lengths': `${OK}content-length: 2\r\ncontent-length: 3\r\n\r\n[]`,
  'a length beside chunks': `${OK}content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`,
  'a chunk of no size': `${CHUNKED}zz\r\n`,
  trailers: `${CHUNKED}1\r\n]\r\n0\r\n__proto__: a\r\nconstructor: b\r\n\r\n`,
  'large trailers': `${CHUNKED}1\r\n]\r\n0\r\nx: ${'y'.repeat(90_000)}\r\n\r\n`,
  'large headers': `${OK}x: ${'y'.repeat(90_000)}\r\n\r\n`,
  'more than one reply': PAGE + PAGE + PAGE,
  'no gzip': PAGE.replace(JSON_TYPE, `${JSON_TYPE}content-encoding: gzip\r\n`),
  'two encodings': PAGE.replace(JSON_TYPE, `${JSON_TYPE}content-encoding: gzip, br\r\n`),
  'another type': PAGE.replace('application/json', 'text/html'),
  'too large': `${OK}content-length: 999999999\r\n\r\n[`,
  'a negative length': `${OK}content-length: -1\r\n\r\n`,
  'no status line': `[]${END}`,
};

describe('replies that end in unusual ways', () => {
  it('end in an answer or an error, and harm no other tenant', async () => {
    const replies = Object.values(ENDS);
    server = await follow(
      createServer((socket) => {
        socket.on('data', (head) => {
          const reply = replies[Number(/^GET \/(\d+)/.exec(head.toString())?.[1])] ?? PAGE;
          const close = [RESET, END].find((word) => reply.endsWith(word));
          socket.write(reply.slice(0, reply.length - (close?.length ?? 0)));
          if (close !== undefined) {
            setTimeout(() => (close === RESET ? socket.resetAndDestroy() : socket.end()), 5);
          }
        });
      }),
    );
    const { url } = server;
    sender = Sender.withTenants({
      hostile: tenantAt(url, { attempts: 1, attemptTimeout: 200 }),
      other: tenantAt(url),
    });
    for (const [index, name] of Object.keys(ENDS).entries()) {
      const reply = await sender
        .send({ url: `${url}/${index}` }, { tenant: 'hostile' })
        .catch((error) => error);
      const isUsable = [0, 3, 6, 14, 17].includes(index);
      expect([name, reply instanceof Error]).toEqual([name, !isUsable]);
    }
    await expect(sender.send({ url: `${url}/other` }, { tenant: 'other' })).resolves.toMatchObject({
      body: [],
    });
  });
});
