import { IncomingMessage } from 'node:http';

const MAX_BODY_BYTES = 1024 * 1024;

/** Reads the body of a request. `undefined` if the client disconnected first or sent more than 1 MiB. */
export async function readBody(request: IncomingMessage): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let length = 0;
  try {
    for await (const chunk of request) {
      length += chunk.length;
      if (length > MAX_BODY_BYTES) {
        return undefined;
      }
      chunks.push(chunk);
    }
    return Buffer.concat(chunks);
  } catch {
    return undefined;
  }
}

/** Copies a request whose body was read, so that another handler can read the body: a stream is read only once. */
export function copyWithBody(request: IncomingMessage, body: Buffer): IncomingMessage {
  const copy = new IncomingMessage(request.socket);
  copy.method = request.method;
  copy.url = request.url;
  copy.headers = request.headers;
  copy.rawHeaders = request.rawHeaders;
  copy.httpVersion = request.httpVersion;
  copy.httpVersionMajor = request.httpVersionMajor;
  copy.httpVersionMinor = request.httpVersionMinor;
  // When Node destroys an incomplete message, it destroys the connection as well.
  copy.complete = true;
  copy.push(body);
  copy.push(null);
  return copy;
}
