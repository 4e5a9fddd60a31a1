import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { parse } from 'node:querystring';
import type { ApiAccessCheck } from './api-access.js';
import type { ExhibitorRecords } from './exhibitor-records.js';
import { answerWithFault, pause } from './fault-on-the-wire.js';
import type { FaultQueue } from './fault-queue.js';
import type { Provider } from './identity-provider.js';
import { answerLogin } from './login-routes.js';
import type { OpenRequest, RequestLog } from './request-log.js';
import { answerRest } from './rest-api.js';
import { readBody, replay, sendJson } from './sandbox-server.js';
import type { SandboxSeed, SeedPerson } from './seed.js';

/** The parts a request passes. */
export interface SandboxParts {
  readonly provider: Provider;
  readonly seed: SandboxSeed;
  readonly log: RequestLog;
  readonly faults: FaultQueue;
  readonly access: ApiAccessCheck;
  readonly records: ExhibitorRecords;
  readonly latency: () => number;
  readonly signedInAs: () => SeedPerson | undefined;
  readonly connectionOf: (socket: Socket) => number;
}

/** Takes a request through the log and the faults to whoever answers it. */
export function requestListener(parts: SandboxParts): RequestListener {
  const answerAsProvider = parts.provider.callback();

  return (request, response) => {
    void serve(request, response).catch((error: unknown) => confess(response, error));
  };

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const record = parts.log.begin(request, parts.connectionOf(request.socket));
    watchEnd(parts.log, record, response);

    const body = await readBody(request);
    if (!body) {
      response.destroy();
      return;
    }
    parts.log.complete(record, isForm(request) ? { ...parse(body.toString()) } : {});

    const answer = async () => {
      if (response.destroyed) {
        return;
      }
      if (record.operation === 'list' || record.operation === 'lookup') {
        return answerAsRest(parts, record, response);
      }
      if (record.operation === 'login') {
        return answerLogin(parts.provider, parts, { request, response, form: record.body });
      }
      return answerAsProvider(body.length > 0 ? replay(request, body) : request, response);
    };

    const fault = parts.faults.take(record);
    record.fault = fault;
    await (fault ? answerWithFault(fault, response, answer) : answer());
  }
}

// A mistake here, or a fault that cannot be sent, must not take the process of the tests along.
function confess(response: ServerResponse, error: unknown): void {
  if (response.headersSent || response.destroyed) {
    response.destroy();
    return;
  }
  sendJson(response, 500, { error: 'sandbox_failure', message: String(error) });
}

async function answerAsRest(
  parts: SandboxParts,
  record: OpenRequest,
  response: ServerResponse,
): Promise<void> {
  const latency = parts.latency();
  if (latency > 0) {
    await pause(latency, response);
  }
  const { method, eventId, contactEmail, query } = record;
  if (eventId === undefined) {
    return sendJson(response, 400, {
      error: 'invalid_path',
      message: 'The path is not percent-encoded properly',
    });
  }
  const access = await parts.access.check(record.headers.authorization, record.tenantId);
  const call = { method, eventId, contactEmail, query };
  const reply = answerRest(call, access, parts.records);
  sendJson(response, reply.status, reply.body, reply.headers);
}

// `close` comes exactly once, however the exchange ends.
function watchEnd(log: RequestLog, record: OpenRequest, response: ServerResponse): void {
  response.once('close', () => {
    record.status = response.headersSent ? response.statusCode : undefined;
    record.aborted = !response.writableFinished && !endsByItself(record);
    log.end(record);
  });
}

function endsByItself({ fault }: OpenRequest): boolean {
  return fault?.kind === 'reset' || fault?.kind === 'truncate';
}

function isForm({ headers }: IncomingMessage): boolean {
  return headers['content-type']?.startsWith('application/x-www-form-urlencoded') ?? false;
}
