/** Keep-alive connections to one host, each with one request at a time. Costs little, so that the host is the limit. */
import { connect } from 'node:net';

const CONNECTIONS = 32;

export class Load {
  #sockets;

  constructor(port) {
    // An error is followed by `close`.
    const open = () =>
      connect(port, '127.0.0.1')
        .setNoDelay()
        .on('error', () => {});
    this.#sockets = Array.from({ length: CONNECTIONS }, open);
  }

  /** Requests with these header lines in turn, for `ms` milliseconds, or each once. Answers how many were served. */
  async send(path, headers, ms) {
    const requests = headers.map((header) =>
      Buffer.from(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n${header}\r\n\r\n`),
    );
    const until = performance.now() + (ms ?? 0);
    let sent = 0;
    const isOver = () => (ms === undefined ? sent >= requests.length : performance.now() >= until);
    const next = () => (isOver() ? undefined : requests[sent++ % requests.length]);
    await Promise.all(this.#sockets.map((socket) => sendInTurn(socket, next)));
    return sent;
  }
}

function sendInTurn(socket, next) {
  return new Promise((resolve, reject) => {
    const send = () => {
      const request = next();
      if (request === undefined) {
        socket.off('data', onReply).off('close', onClose);
        resolve();
      } else {
        socket.write(request);
      }
    };
    let missing = 0;
    const onReply = (bytes) => {
      missing = (missing || replyLength(bytes)) - bytes.length;
      if (missing === 0) {
        send();
      }
    };
    const onClose = () => reject(new Error('the host closed a connection'));
    socket.on('data', onReply).on('close', onClose).resume();
    send();
  });
}

/** Bytes of a reply that begins with these: `express-session` sends its head and its body apart. */
function replyLength(bytes) {
  const head = bytes.latin1Slice(0, bytes.indexOf('\r\n\r\n') + 4);
  if (!head.startsWith('HTTP/1.1 200')) {
    throw new Error(`the host answered ${head}`);
  }
  return head.length + Number(/^content-length: (\d+)/im.exec(head)?.[1]);
}
