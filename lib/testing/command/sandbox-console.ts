import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { readBody } from '../sandbox/request-listener.js';
import type { SandboxState } from '../sandbox/sandbox-state.js';
import { sendJson, sendReply } from '../sandbox/send-reply.js';
import { CONSOLE_HEADERS, renderActivity, renderConsole } from './console-page.js';
import { parseFault } from './inputs.js';

/** Serves the page `/sandbox` with its live list of requests, and faults by HTTP. The service answers all other requests. */
export function createConsole(state: SandboxState, service: RequestListener): RequestListener {
  const pages = new Set<ServerResponse>();
  let timer: NodeJS.Timeout | undefined;

  /** Sends the activity to the pages, at most ten times a second. */
  function update(): void {
    timer ??= setTimeout(() => {
      timer = undefined;
      const event = `data: ${JSON.stringify(renderActivity(state))}\n\n`;
      pages.forEach((page) => page.write(event));
    }, 100).unref();
  }
  state.log.onChange = update;

  function openPage(response: ServerResponse): void {
    response.setHeader('content-type', 'text/event-stream').flushHeaders();
    response.once('close', () => pages.delete(response));
    pages.add(response);
    update();
  }

  async function addFault(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const { match, fault, times } = parseFault(String(await readBody(request)));
      state.faults.add(match, fault, times);
      sendFaults(response);
    } catch (error) {
      sendJson(response, 400, { error: 'invalid_fault', message: String(error) });
    }
  }

  function sendFaults(response: ServerResponse): void {
    update();
    sendJson(response, 200, state.faults.pending);
  }

  return (request, response) => {
    const [path = ''] = (request.url ?? '').split('?');
    if (path !== '/sandbox' && !path.startsWith('/sandbox/')) {
      return service(request, response);
    }
    if (!isOwnRequest(request, state.url)) {
      return sendJson(response, 403, { error: 'foreign', message: 'Other pages may not use the sandbox' });
    }
    switch (`${request.method} ${path}`) {
      case 'GET /sandbox':
        return sendReply(response, 200, CONSOLE_HEADERS, renderConsole(state));
      case 'GET /sandbox/requests':
        return openPage(response);
      case 'POST /sandbox/faults':
        return void addFault(request, response);
      case 'DELETE /sandbox/faults':
        state.faults.clear();
        return sendFaults(response);
      case 'GET /sandbox/faults':
        return sendFaults(response);
      default:
        return sendJson(response, 404, { error: 'not_found', message: 'See GET /sandbox' });
    }
  };
}

/**
 * Whether the page itself or a program sent a request. A page of another site in the developer's browser reaches loopback too:
 * by a name of its own (DNS rebinding), which `Host` shows, or across origins: browsers send `Origin` with every request that
 * changes something, or whose reply the page could read.
 */
function isOwnRequest({ headers: { host, origin } }: IncomingMessage, url: string): boolean {
  const own = new URL(url).host;
  const isOwnHost = host === own || host === own.replace('127.0.0.1', 'localhost');
  return isOwnHost && (origin === undefined || origin === `http://${host}`);
}
