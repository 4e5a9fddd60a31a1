import { HttpService } from '@nestjs/axios';
import * as axios from 'axios';
import {
  AxiosHeaders,
  type AxiosRequestConfig,
  type AxiosResponse,
  type InternalAxiosRequestConfig,
} from 'axios';
import type { Connections, WireRequest } from './connections.js';
import { ResponseHandler } from './response-handler.js';
import type { Outcome } from '../outcome.js';

// Without one, HttpService makes one for each request and cancels it after each, also after a success.
const NO_CANCELLATION = new axios.default.CancelToken(() => {});

const NO_HEADERS = new AxiosHeaders();

/**
 * The private `HttpService`: axios with undici beneath it. Its adapter resolves with the {@link Outcome} of the
 * exchange, also where that is a failure: an `AxiosError` shows the bearer token, and none is ever made.
 */
export function createHttpClient(connections: Connections): HttpService {
  const adapter = async (config: InternalAxiosRequestConfig): Promise<AxiosResponse<Outcome>> => {
    const handler = handlerOf(config);
    send(connections, wireRequest(config, handler));
    const data = await handler.outcome;
    const status = data.status ?? 0;
    return { data, status, statusText: '', headers: NO_HEADERS, config };
  };
  const instance = axios.create({ adapter });
  // What the other defaults ask axios to do is done here or not at all, and merging them into each request was most of
  // what axios cost: no transforms of bodies, no statuses that throw, no proxy and no header that we do not set.
  for (const name of Object.keys(instance.defaults)) {
    if (name !== 'adapter') {
      Reflect.deleteProperty(instance.defaults, name);
    }
  }
  return new HttpService(instance);
}

/** Sends one request and answers its outcome; it never rejects. */
export function sendOver(
  http: HttpService,
  request: AxiosRequestConfig & { signal: ResponseHandler },
): Promise<Outcome> {
  return new Promise((resolve) => {
    http.request<Outcome>({ ...request, cancelToken: NO_CANCELLATION }).subscribe({
      next: ({ data }) => resolve(data),
      error: () => resolve({ kind: 'failed', why: 'network', message: 'the request could not be sent' }),
    });
  });
}

function handlerOf(config: InternalAxiosRequestConfig): ResponseHandler {
  if (config.signal instanceof ResponseHandler) {
    return config.signal;
  }
  throw new TypeError('a request without a handler');
}

function wireRequest(config: InternalAxiosRequestConfig, handler: ResponseHandler): WireRequest {
  const { origin, path } = splitUrl(config.url ?? '');
  const body: unknown = config.data;
  return {
    origin,
    path,
    method: config.method === 'post' ? 'POST' : 'GET',
    headers: handler.headers,
    body: typeof body === 'string' ? body : undefined,
    reset: handler.fresh,
    // The deadline rules both; undici's own timers would only cost.
    headersTimeout: 0,
    bodyTimeout: 0,
    handler,
  };
}

function send(connections: Connections, request: WireRequest): void {
  const { handler } = request;
  if (handler.dispatcher !== undefined) {
    handler.dispatcher.dispatch(request, handler);
  } else if (handler.fresh) {
    connections.sendFresh(request);
  } else {
    connections.send(request);
  }
}

/** Of an absolute URL whose parts are encoded already; `new URL` would parse and normalize it again, at its cost. */
export function splitUrl(url: string): { origin: string; path: string } {
  const authority = url.indexOf('//') + 2;
  const slash = url.indexOf('/', authority);
  if (slash === -1) {
    return { origin: url, path: '/' };
  }
  return { origin: url.slice(0, slash), path: url.slice(slash) };
}
