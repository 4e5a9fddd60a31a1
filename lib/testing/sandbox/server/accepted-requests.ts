import type { IncomingMessage } from 'node:http';
import { isLoopback } from '../../../model/loopback.js';

/** In bytes. A request of the protocols has some kB. */
const LARGEST_BODY = 1024 * 1024;

/**
 * Whether a request is addressed to this machine, or to one of the given names. A page of another site in the developer's
 * browser reaches loopback too, by a name of its own (DNS rebinding), which `Host` shows.
 */
export function isForSandbox({ headers: { host = '' } }: IncomingMessage, names: readonly string[]): boolean {
  if (!URL.canParse(`http://${host}`)) {
    return false;
  }
  const { hostname } = new URL(`http://${host}`);
  return isLoopback(hostname) || names.includes(hostname);
}

/** The whole body; `'too large'` where it has more than 1 MiB, `undefined` where the client left. */
export async function readBody(request: IncomingMessage): Promise<Buffer | 'too large' | undefined> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    // Not destroyed: the connection still has to carry the reply.
    for await (const chunk of request.iterator({ destroyOnReturn: false })) {
      bytes += chunk.length;
      if (bytes > LARGEST_BODY) {
        return 'too large';
      }
      chunks.push(chunk);
    }
    return Buffer.concat(chunks);
  } catch {
    return undefined;
  }
}
