import { HttpService } from '@nestjs/axios';
// The default export, which every version has in ES modules and in CommonJS.
import axios, { type AxiosAdapter, type AxiosResponse, type InternalAxiosRequestConfig } from 'axios';
import type { Dispatcher } from 'undici';
import type { Outcome } from '../outcome.js';
import { Connections } from './connections.js';
import type { ResponseHandler } from './response-handler.js';

/** One request, without retries. */
export interface HttpRequest {
  method: 'GET' | 'POST';
  origin: string;
  /** Encoded path and query. */
  path: string;
  headers: Readonly<Record<string, string>>;
  body: string | undefined;
  /** Send on a new connection instead of one of the pool. */
  fresh: boolean;
  /** Dispatcher of the host; our own connections if none. */
  dispatcher: Dispatcher | undefined;
  handler: ResponseHandler;
}

type ConfigWithAdapter = InternalAxiosRequestConfig & { adapter: AxiosAdapter };

// Without a token in the config, HttpService creates one for each request and cancels it after each, also after a success.
const NO_CANCELLATION = new axios.CancelToken(() => {});

const NO_HEADERS = new axios.AxiosHeaders();

/** A private `HttpService`: axios, with undici as its adapter. */
export class HttpClient {
  #connections: Connections | undefined;
  #isClosed = false;
  readonly #http = createHttpService();

  /**
   * Sends a request and answers its outcome; never rejects. The adapter resolves for failures, too: an `AxiosError` shows
   * the bearer token, so none is ever created.
   */
  send(request: HttpRequest): Promise<Outcome> {
    const adapter = async (config: InternalAxiosRequestConfig): Promise<AxiosResponse<Outcome>> => {
      if (request.dispatcher === undefined && this.#connections === undefined) {
        await this.#open();
      }
      this.#dispatch(request);
      const data = await request.handler.outcome;
      return { data, status: data.status ?? 0, statusText: '', headers: NO_HEADERS, config };
    };
    const { method, origin, path } = request;
    return new Promise((resolve) => {
      this.#http
        .request<Outcome>({ method, baseURL: origin, url: path, adapter, cancelToken: NO_CANCELLATION })
        .subscribe({
          next: ({ data }) => resolve(data),
          error: () => resolve({ kind: 'failed', why: 'network', message: 'the request could not be sent' }),
        });
    });
  }

  /** Aborts all requests and closes our connections; the dispatchers of hosts stay open. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#connections?.close();
  }

  /** Loading undici takes 60 ms of CPU time, so it is done with the first request. */
  async #open(): Promise<void> {
    const undici = await import('undici');
    if (!this.#isClosed) {
      this.#connections ??= new Connections(undici);
    }
  }

  #dispatch({ method, origin, path, headers, body, fresh, dispatcher, handler }: HttpRequest): void {
    // The call may have ended in the few microtasks that axios takes.
    if (handler.isSettled) {
      return;
    }
    // The deadline limits headers and body; undici's own timers are not needed.
    const wire = {
      origin,
      path,
      method,
      headers,
      body,
      reset: fresh,
      handler,
      headersTimeout: 0,
      bodyTimeout: 0,
    };
    if (dispatcher !== undefined) {
      dispatcher.dispatch(wire, handler);
    } else if (this.#connections === undefined) {
      handler.stop('over');
    } else if (fresh) {
      this.#connections.sendFresh(wire);
    } else {
      this.#connections.send(wire);
    }
  }
}

/**
 * Hands each request to its adapter. What axios does before and after (merged defaults, transforms, accepted statuses, headers)
 * is done here or not at all, and took 12 µs a request.
 */
function createHttpService(): HttpService {
  const request = (config: ConfigWithAdapter): Promise<AxiosResponse> => config.adapter(config);
  return new HttpService(Object.assign(axios.create(), { request }));
}

/** Origin and path of an absolute URL. The path is kept as it is; `new URL` would normalize it. */
export function splitUrl(url: string): { origin: string; path: string } {
  const authority = url.indexOf('//') + 2;
  const slash = url.indexOf('/', authority);
  if (slash === -1) {
    return { origin: url, path: '/' };
  }
  return { origin: url.slice(0, slash), path: url.slice(slash) };
}
