import { IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { parse } from 'node:querystring';
import { applyFault } from './faults.js';
import type { Provider } from './identity-provider.js';
import { handleLogin } from './login.js';
import type { OpenRequest, RequestLog } from './request-log.js';
import { createRestReply } from './rest-api.js';
import type { SandboxState } from './sandbox-state.js';
import { pause, sendJson } from './send-reply.js';

const MAX_BODY_BYTES = 1024 * 1024;

/** Logs each request, applies its fault and passes it to the REST API, the login page or the identity provider. */
export function createRequestListener(
  state: SandboxState,
  provider: Provider,
  connectionNumber: (socket: Socket) => number,
): RequestListener {
  const handleAsProvider = provider.callback();

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const record = state.log.begin(request, connectionNumber(request.socket));
    recordEnd(state.log, record, response);

    const body = await readBody(request);
    if (!body) {
      response.destroy();
      return;
    }
    state.log.recordForm(record, isForm(request) ? { ...parse(body.toString()) } : {});

    const sendRegularReply = async () => {
      if (response.destroyed) {
        return;
      }
      if (record.operation === 'list' || record.operation === 'lookup') {
        return handleRest(state, record, response);
      }
      if (record.operation === 'login') {
        return handleLogin(provider, state, { request, response, form: record.body });
      }
      return handleAsProvider(body.length > 0 ? copyWithBody(request, body) : request, response);
    };

    const fault = state.faults.take(record);
    record.fault = fault;
    state.log.onChange(record);
    await (fault ? applyFault(fault, response, sendRegularReply) : sendRegularReply());
  }

  return (request, response) => {
    void handle(request, response).catch((error: unknown) => sendFailure(response, error));
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

async function handleRest(state: SandboxState, record: OpenRequest, response: ServerResponse): Promise<void> {
  if (state.latency > 0) {
    await pause(state.latency, response);
  }
  const { method, eventId, contactEmail, query } = record;
  if (eventId === undefined) {
    return sendJson(response, 400, {
      error: 'invalid_path',
      message: 'The percent-encoding of the path is invalid',
    });
  }
  const access = await state.access.check(record.headers.authorization, record.tenantId);
  const reply = createRestReply({ method, eventId, contactEmail, query }, access, state.records);
  sendJson(response, reply.status, reply.body, reply.headers);
}

// `close` is emitted exactly once, also if the client disconnects.
function recordEnd(log: RequestLog, record: OpenRequest, response: ServerResponse): void {
  response.once('close', () => {
    record.status = response.headersSent ? response.statusCode : undefined;
    record.aborted = !response.writableFinished && !closesConnection(record);
    log.end(record);
  });
}

/** Whether the sandbox itself closes the connection before the reply is complete. */
function closesConnection({ fault }: OpenRequest): boolean {
  return fault?.kind === 'reset' || fault?.kind === 'truncate';
}

function isForm({ headers }: IncomingMessage): boolean {
  return headers['content-type']?.startsWith('application/x-www-form-urlencoded') ?? false;
}

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
function copyWithBody(request: IncomingMessage, body: Buffer): IncomingMessage {
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
