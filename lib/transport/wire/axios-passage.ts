import type { HttpService } from '@nestjs/axios';
// The default export, which every version has in ES modules and in CommonJS.
import axios, { type AxiosAdapter } from 'axios';
import type { Dispatcher } from 'undici';
import { ExhibitorError } from '../../errors/exhibitor.error.js';
import { codeOf, type Failed, type Outcome } from '../outcome.js';
import type { Connections, WireRequest } from './connections.js';
import { withHeadersOfHost } from './request-headers.js';
import type { ExpectedReply } from './reply-body.js';
import type { ResponseHandler } from './response-handler.js';

/** One request, without retries. */
export interface OutgoingRequest extends ExpectedReply, WireRequest {
  headers: Readonly<Record<string, string>>;
  /** Time limit in ms from sending to the end of the reply; without one, the deadline of the call is the limit. */
  timeout: number | undefined;
  /** Sends on a new connection instead of one of the pool. */
  onNewConnection: boolean;
  /** Dispatcher of the host; our own connections if none. */
  dispatcher: Dispatcher | undefined;
}

export interface AxiosTools {
  readonly http: HttpService;
  /** Without interceptors, axios is given the adapter only: it takes 15 µs to copy and check the rest. */
  readonly hasInterceptors: boolean;
  readonly connections: Connections;
}

const NO_HEADERS = new axios.AxiosHeaders();

/**
 * One request on its way through axios: interceptors of the host, the adapter, which sends it and waits for the reply, interceptors
 * again.
 */
export class AxiosPassage {
  /** Who has it: the interceptors of requests, then the service, then those of responses. */
  #stage: 'request interceptor' | 'service' | 'response interceptor' = 'request interceptor';
  /** What the adapter rejected with. Interceptors may pass it on. */
  #failure: ExhibitorError | undefined;

  constructor(
    private readonly request: OutgoingRequest,
    private readonly handler: ResponseHandler,
    private readonly tools: AxiosTools,
  ) {}

  /** Never rejects. */
  async run(): Promise<Outcome> {
    const adapter = this.#adapter;
    const { method, url, headers } = this.request;
    const seen = this.tools.hasInterceptors ? { method, url, headers: { ...headers } } : {};
    try {
      await this.tools.http.axiosRef.request({ adapter, ...seen });
    } catch (error) {
      if (this.#failure === undefined || error !== this.#failure) {
        return this.#failedInInterceptor(error);
      }
    }
    return this.handler.isSettled
      ? this.handler.outcome
      : this.#failedInInterceptor(new TypeError('an axios interceptor replaced the adapter of the request'));
  }

  stop(): Failed {
    const failed = this.handler.stop('over');
    return this.#stage === 'service' ? failed : { ...failed, phase: this.#stage };
  }

  /**
   * Sends with undici. A failure is no `AxiosError`: that one shows the bearer token. Interceptors of responses get any
   * status as a response.
   */
  readonly #adapter: AxiosAdapter = async (config) => {
    const { hasInterceptors } = this.tools;
    const own = this.request.headers;
    const timer = this.#send(hasInterceptors ? withHeadersOfHost(own, config.headers) : own);
    const outcome = await this.handler.outcome;
    clearTimeout(timer);
    this.#stage = 'response interceptor';
    if (outcome.kind === 'failed') {
      this.#failure = new ExhibitorError(codeOf(outcome) ?? 'service_unavailable', outcome.message);
      throw this.#failure;
    }
    return {
      data: undefined,
      status: outcome.status,
      statusText: '',
      headers: hasInterceptors ? outcome.headers : NO_HEADERS,
      config,
    };
  };

  /** Sends, unless the call ended in an interceptor. Answers the timer of the time limit. */
  #send(headers: WireRequest['headers']): NodeJS.Timeout | undefined {
    const { handler, request } = this;
    const { url, method, body, timeout } = request;
    if (handler.isSettled) {
      return undefined;
    }
    this.#stage = 'service';
    try {
      this.tools.connections.send({ url, method, headers, body }, handler, request);
    } catch {
      // undici, or a dispatcher of the host, is closed.
      handler.fail('the request could not be sent');
    }
    return timeout === undefined ? undefined : setTimeout(() => handler.stop('timeout'), timeout);
  }

  async #failedInInterceptor(error: unknown): Promise<Outcome> {
    const reply = this.handler.isSettled ? await this.handler.outcome : undefined;
    return {
      kind: 'failed',
      why: 'interceptor',
      message: 'an axios interceptor of the host failed',
      cause: this.#isOwnAxiosError(error) ? undefined : error,
      status: reply?.status,
      phase: this.#stage === 'service' ? undefined : this.#stage,
    };
  }

  /** axios creates errors that show this request, for instance where an interceptor cancels it. */
  #isOwnAxiosError(error: unknown): boolean {
    return axios.isAxiosError(error) && error.config?.adapter === this.#adapter;
  }
}
