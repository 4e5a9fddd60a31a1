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
}

/** Sends one request as given and reads until the reply is complete, the connection ends, or nothing arrives for 3 s. */
export function rawRequest(
  address: string,
  {
    method = 'GET',
    headers = {},
    body = '',
  }: { method?: string; headers?: Record<string, string>; body?: string },
): Promise<WireReply> {
  const { hostname, port, pathname, search } = new URL(address);
  const started = performance.now();
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
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
      });
    };
    socket.setTimeout(3_000, () => finish('open'));
    socket.on('data', (chunk) => {
      chunks.push(chunk);
      if (isComplete(Buffer.concat(chunks))) {
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
  return length !== undefined && bytes.length >= split + 4 + Number(length);
}
