import { connect } from 'node:net';

/** The bytes received over one connection. */
export interface WireReply {
  readonly text: string;
  readonly bytes: Buffer;
  /** Header block; `undefined` where it is incomplete. */
  readonly head: string | undefined;
  readonly body: string;
  /** End of the connection: by FIN, by RST, or by the client (`open`). */
  readonly end: 'closed' | 'reset' | 'open';
  readonly ms: number;
  /** Time between the first and the last byte, in ms. */
  readonly spread: number;
}

export interface Patience {
  readonly patience?: number;
  readonly listenOn?: boolean;
}

/**
 * Sends one request as given and reads until the reply is complete, the connection ends, or nothing arrives for
 * `patience` ms. With `listenOn` it reads on after a complete reply.
 */
export function rawRequest(
  address: string,
  {
    method = 'GET',
    headers = {},
    body = '',
  }: { method?: string; headers?: Record<string, string>; body?: string },
  { patience = 300, listenOn = false }: Patience = {},
): Promise<WireReply> {
  const { hostname, port, pathname, search } = new URL(address);
  const started = performance.now();
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let first = 0;
    let last = 0;
    const socket = connect(Number(port), hostname, () => {
      const lines = Object.entries({
        host: `${hostname}:${port}`,
        'content-length': String(body.length),
        ...headers,
      });
      const head = lines.map(([name, value]) => `${name}: ${value}\r\n`).join('');
      socket.write(`${method} ${pathname}${search} HTTP/1.1\r\n${head}\r\n${body}`);
    });
    const finish = (end: WireReply['end']) => {
      socket.destroy();
      const bytes = Buffer.concat(chunks);
      const text = bytes.toString('latin1');
      const split = text.indexOf('\r\n\r\n');
      resolve({
        text,
        bytes,
        head: split === -1 ? undefined : text.slice(0, split).toLowerCase(),
        body: split === -1 ? '' : text.slice(split + 4),
        end,
        ms: performance.now() - started,
        spread: last - first,
      });
    };
    socket.setTimeout(patience, () => finish('open'));
    socket.on('data', (chunk) => {
      last = performance.now();
      first ||= last;
      chunks.push(chunk);
      if (!listenOn && isComplete(Buffer.concat(chunks))) {
        finish('open');
      }
    });
    socket.once('end', () => finish('closed'));
    socket.once('error', () => finish('reset'));
  });
}

function isComplete(bytes: Buffer): boolean {
  const split = bytes.indexOf('\r\n\r\n');
  const length = /content-length: (\d+)/i.exec(bytes.subarray(0, Math.max(split, 0)).toString())?.[1];
  if (split === -1 || length === undefined) {
    return split !== -1 && bytes.subarray(-5).toString() === '0\r\n\r\n';
  }
  return bytes.length >= split + 4 + Number(length);
}
