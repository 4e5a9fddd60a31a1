import { IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import { isLoopback, parseUrl } from '../../../model/urls.js';
import { handleConsole, isConsole } from '../console.js';
import { sendFault } from '../faults.js';
import type { Provider } from '../provider/identity-provider.js';
import { handleLogin } from '../provider/login.js';
import type { SandboxState } from '../sandbox-state.js';
import { sendJson } from './sandbox-server.js';

/** In bytes. A request of the protocols has some kB. */
const LARGEST_BODY = 1024 * 1024;
const TOO_LARGE = { error: 'too_large', message: 'The sandbox takes bodies of 1 MiB at most' };

const FOREIGN_HOST = {
  error: 'foreign_host',
  message: 'The sandbox answers to names of this machine only, such as localhost',
};

/**
 * Logs each request, applies its fault and passes it to the REST API, the login page or the identity provider. Requests for
 * the page `/sandbox` and what belongs to it are neither logged nor failed.
 */
export function createRequestListener(state: SandboxState, provider: Provider): RequestListener {
  const handleAsProvider = provider.callback();

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (!isForSandbox(request)) {
      return sendJson(response, 403, FOREIGN_HOST);
    }
    const body = await readBody(request);
    if (body === undefined) {
      // The rest is not read, so the connection is of no further use.
      return sendJson(response, 413, TOO_LARGE, { connection: 'close' });
    }
    if (isConsole(request)) {
      return handleConsole(state, provider, request, response, body.toString());
    }
    const record = state.log.add(request, response, body);
    const sendRegularReply = async () => {
      if (response.destroyed) {
        return;
      }
      if (record.operation === 'list' || record.operation === 'lookup') {
        return state.api.reply(record, response, state.settings.latency);
      }
      if (record.operation === 'login') {
        return handleLogin(provider, state.seed, request, response, record.body);
      }
      return handleAsProvider(copyWithBody(request, body), response);
    };
    const fault = state.faults.take(record);
    record.fault = fault?.kind;
    return fault === undefined ? sendRegularReply() : sendFault(fault, request, response, sendRegularReply);
  }

  return (request, response) =>
    void handle(request, response).catch((error: unknown) => sendFailure(response, error));
}

/** The body; `undefined` where it is too large. */
async function readBody(request: IncomingMessage): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request.iterator({ destroyOnReturn: false })) {
    bytes += chunk.length;
    if (bytes > LARGEST_BODY) {
      return undefined;
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/**
 * Whether a request is addressed to this machine. A page of another site in the developer's browser reaches loopback too, by a
 * name of its own (DNS rebinding), which `Host` shows.
 */
function isForSandbox({ headers: { host = '' } }: IncomingMessage): boolean {
  return isLoopback(parseUrl(`http://${host}`)?.hostname ?? '');
}

// A bug in the sandbox, a fault that cannot be sent, or a client that left, must not end the test process.
function sendFailure(response: ServerResponse, error: unknown): void {
  if (response.headersSent || response.destroyed) {
    response.destroy();
    return;
  }
  sendJson(response, 500, { error: 'sandbox_failure', message: String(error) });
}

/** Copies a request whose body was read, so that another handler can read the body: a stream is read only once. */
function copyWithBody(request: IncomingMessage, body: Buffer): IncomingMessage {
  const { socket, method, url, headers } = request;
  // `complete`: when Node destroys an incomplete message, it destroys the connection as well.
  const copy = Object.assign(new IncomingMessage(socket), { method, url, headers, complete: true });
  copy.push(body);
  copy.push(null);
  return copy;
}
