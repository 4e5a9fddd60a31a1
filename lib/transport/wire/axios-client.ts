import { HttpService } from '@nestjs/axios';
// The default export, which every version has in ES modules and in CommonJS.
import axios, { type AxiosAdapter, type AxiosInstance, type AxiosRequestConfig } from 'axios';
import { firstValueFrom } from 'rxjs';
import type { Dispatcher } from 'undici';
import { ConfigurationError } from '../../errors/configuration.error.js';
import { ExhibitorError } from '../../errors/exhibitor.error.js';
import type { Clock } from '../../time/clock.js';
import type { Deadline } from '../../time/deadline.js';
import { codeOf, type Failed, type Outcome } from '../outcome.js';
import { Connections, type WireRequest } from './connections.js';
import { withHeadersOfHost } from './request-headers.js';
import { ResponseHandler, type ExpectedReply } from './response-handler.js';
import { UnfinishedReplies } from './unfinished-replies.js';

/** One request, without retries. */
export interface OutgoingRequest extends ExpectedReply {
  method: 'GET' | 'POST';
  /** Absolute, with an encoded path and query. */
  url: string;
  headers: Readonly<Record<string, string>>;
  body: string | undefined;
  /** Time limit in ms from sending to the end of the reply; without one, the deadline of the call is the limit. */
  timeout: number | undefined;
  /** Sends on a new connection instead of one of the pool. */
  onNewConnection: boolean;
  /** Dispatcher of the host; our own connections if none. */
  dispatcher: Dispatcher | undefined;
}

// Without a token in the config, HttpService creates one for each request and cancels it after each, also after a success.
const NO_CANCELLATION = new axios.CancelToken(() => {});

const NO_HEADERS = new axios.AxiosHeaders();

/**
 * A private `HttpService` on an axios instance of its own. axios calls the interceptors of the host; undici sends, and we read
 * the reply. From the interceptors come headers and nothing else.
 */
export class AxiosClient {
  readonly #connections: Connections;
  readonly #replies = new UnfinishedReplies();
  readonly #http: HttpService;
  readonly #hasInterceptors: boolean;

  /**
   * @param configure the option `axios`: adds the interceptors of the host
   * @throws {ConfigurationError} where it throws
   */
  constructor(clock: Clock, configure: ((instance: AxiosInstance) => unknown) | undefined) {
    this.#connections = new Connections(clock);
    this.#hasInterceptors = configure !== undefined;
    const instance = createInstance(this.#hasInterceptors);
    try {
      configure?.(instance);
    } catch (cause) {
      throw new ConfigurationError([{ path: 'axios', expected: 'threw an error' }], undefined, cause);
    }
    this.#http = new HttpService(instance);
  }

  /**
   * Sends a request and answers its outcome; never rejects. What ends first is the answer: the way of the request through axios,
   * or the call, which then stops the request. An interceptor may never end, and its late result is ignored.
   */
  send(request: OutgoingRequest, deadline: Deadline): Promise<Outcome> {
    const handler = new ResponseHandler(request, this.#replies);
    const passage = new Passage(request, handler, this.#http, this.#hasInterceptors, this.#connections);
    return new Promise((resolve) => {
      const forget = deadline.onOver(() => resolve(passage.stop()));
      void passage.run().then(resolve).finally(forget);
    });
  }

  /** Closes our connections; the dispatchers of hosts stay open. */
  close(): Promise<void> {
    return this.#connections.close();
  }
}

/** One request on its way through axios: interceptors of the host, the adapter, interceptors again. */
class Passage {
  /** The interceptor that has the request; `undefined` while it is with the service. */
  #phase: 'request interceptor' | 'response interceptor' | undefined = 'request interceptor';
  /** What the adapter rejected with. Interceptors may pass it on. */
  #failure: ExhibitorError | undefined;

  constructor(
    private readonly request: OutgoingRequest,
    private readonly handler: ResponseHandler,
    private readonly http: HttpService,
    /** Without interceptors, axios is given no headers: it takes 10 µs to copy and check them. */
    private readonly hasInterceptors: boolean,
    private readonly connections: Connections,
  ) {}

  /** Never rejects. */
  async run(): Promise<Outcome> {
    const { method, url, headers } = this.request;
    const config: AxiosRequestConfig = {
      method,
      url,
      headers: this.hasInterceptors ? { ...headers } : undefined,
      adapter: this.#adapter,
      cancelToken: NO_CANCELLATION,
    };
    try {
      await firstValueFrom(this.http.request(config));
    } catch (error) {
      if (this.#failure === undefined || error !== this.#failure) {
        return this.#failedInInterceptor(error);
      }
    }
    return this.handler.isSettled
      ? this.handler.outcome
      : this.#failedInInterceptor(new TypeError('an axios interceptor replaced the adapter of the request'));
  }

  /** The call is over. */
  stop(): Failed {
    const failed = this.handler.stop('over');
    return this.#phase === undefined ? failed : { ...failed, phase: this.#phase };
  }

  /**
   * Sends with undici. A failure is no `AxiosError`: that one shows the bearer token. Interceptors of responses get any
   * status as a response.
   */
  readonly #adapter: AxiosAdapter = async (config) => {
    const own = this.request.headers;
    const headers = this.hasInterceptors ? withHeadersOfHost(own, config.headers) : own;
    const outcome = await this.#send(headers);
    if (outcome.kind === 'failed') {
      this.#failure = new ExhibitorError(codeOf(outcome) ?? 'service_unavailable', outcome.message);
      throw this.#failure;
    }
    return {
      data: undefined,
      status: outcome.status,
      statusText: '',
      headers: this.hasInterceptors ? outcome.headers : NO_HEADERS,
      config,
    };
  };

  async #send(headers: WireRequest['headers']): Promise<Outcome> {
    const { method, url, body, timeout } = this.request;
    const handler = this.handler;
    // The call may have ended in an interceptor.
    if (handler.isSettled) {
      return handler.outcome;
    }
    const timer = timeout === undefined ? undefined : setTimeout(() => handler.stop('timeout'), timeout);
    this.#phase = undefined;
    try {
      // The deadline limits headers and body; undici's own timers are not needed.
      const { origin, path } = splitUrl(url);
      const wire = { origin, path, method, headers, body, headersTimeout: 0, bodyTimeout: 0 };
      this.connections.send(wire, handler, this.request);
      return await handler.outcome;
    } catch {
      // undici, or a dispatcher of the host, is closed.
      return handler.fail('the request could not be sent');
    } finally {
      clearTimeout(timer);
      this.#phase = 'response interceptor';
    }
  }

  async #failedInInterceptor(error: unknown): Promise<Outcome> {
    const reply = this.handler.isSettled ? await this.handler.outcome : undefined;
    return {
      kind: 'failed',
      why: 'interceptor',
      message: 'an axios interceptor of the host failed',
      cause: this.#isOwnAxiosError(error) ? undefined : error,
      status: reply?.status,
      phase: this.#phase,
    };
  }

  /** axios creates errors that show this request, for instance where an interceptor cancels it. */
  #isOwnAxiosError(error: unknown): boolean {
    return axios.isAxiosError(error) && error.config?.adapter === this.#adapter;
  }
}

/**
 * An instance without the defaults of axios. The host may have set its own there, such as the token of another service.
 *
 * @param hasInterceptors interceptors may read the empty default headers, which axios copies for each request
 */
function createInstance(hasInterceptors: boolean): AxiosInstance {
  const instance = axios.create();
  for (const name of Object.keys(instance.defaults)) {
    Reflect.deleteProperty(instance.defaults, name);
  }
  if (hasInterceptors) {
    const headers = { common: {}, delete: {}, get: {}, head: {}, post: {}, put: {}, patch: {} };
    Object.assign(instance.defaults, { headers });
  }
  return instance;
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
