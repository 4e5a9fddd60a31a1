import { IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import { handleConsole, isConsole } from '../console/console-routes.js';
import { FAULT_KINDS } from '../faults/fault-kinds.js';
import type { Provider } from '../provider/identity-provider.js';
import { handleLogin } from '../provider/login.js';
import { replyFromRestApi } from '../rest-api/rest-api.js';
import type { SandboxState } from '../sandbox-state.js';
import { isForSandbox, readBody } from './accepted-requests.js';
import { sendJson, sendTooLarge } from './send-reply.js';

const FOREIGN_HOST = {
  error: 'foreign_host',
  message:
    'The sandbox answers to names of this machine, such as localhost, and to those it was started with (--host)',
};

/**
 * Logs each request, applies its fault and passes it to the REST API, the login page or the identity provider. Requests for
 * the page `/sandbox` and what belongs to it are neither logged nor failed.
 */
export function createRequestListener(state: SandboxState, provider: Provider): RequestListener {
  const handleAsProvider = provider.callback();

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const record = state.log.begin(request, response);
    const body = await readBody(request);
    if (body === undefined) {
      response.destroy();
      return;
    }
    if (body === 'too large') {
      return sendTooLarge(response);
    }
    state.log.recordForm(record, isForm(request) ? body.toString() : '');

    const sendRegularReply = async () => {
      if (response.destroyed) {
        return;
      }
      if (record.operation === 'list' || record.operation === 'lookup') {
        return replyFromRestApi(state, record, response);
      }
      if (record.operation === 'login') {
        return handleLogin(provider, state, request, response, record.body);
      }
      return handleAsProvider(copyWithBody(request, body), response);
    };

    const fault = state.faults.take(record);
    record.fault = fault?.kind;
    if (fault === undefined) {
      return sendRegularReply();
    }
    await (fault.kind === 'custom'
      ? fault.send(request, response, sendRegularReply)
      : FAULT_KINDS[fault.kind].send(fault, response, sendRegularReply));
  }

  return (request, response) => {
    if (!isForSandbox(request, state.hosts)) {
      return sendJson(response, 403, FOREIGN_HOST);
    }
    const answer = isConsole(request)
      ? handleConsole(state, provider, request, response)
      : handle(request, response);
    void answer.catch((error: unknown) => sendFailure(response, error));
  };
}

// A bug in the sandbox, or a fault that cannot be sent, must not end the test process.
function sendFailure(response: ServerResponse, error: unknown): void {
  if (response.headersSent || response.destroyed) {
    response.destroy();
    return;
  }
  sendJson(response, 500, { error: 'sandbox_failure', message: String(error) });
}

function isForm({ headers }: IncomingMessage): boolean {
  return headers['content-type']?.startsWith('application/x-www-form-urlencoded') ?? false;
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
