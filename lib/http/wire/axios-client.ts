import type { HttpService } from '@nestjs/axios';
import type { AxiosAdapter, AxiosInstance, AxiosStatic } from 'axios';
import { ConfigurationError } from '../../errors/configuration.error.js';
import { ExhibitorError } from '../../errors/exhibitor.error.js';
import type { Clock } from '../../call/clock.js';
import { loadPeer } from '../../config/installed-packages.js';
import type { Call } from '../../call/call.js';
import { failed, type Failed, type Outcome } from '../outcome.js';
import { withHeadersOfHost } from './host-headers.js';
import { HttpClient, type OutgoingRequest } from './http-client.js';

/** A request of ours, before interceptors of the host added headers. */
export type OwnRequest = OutgoingRequest & { headers: Readonly<Record<string, string>> };

/** The packages of axios, by {@link loadAxios}. */
export const AXIOS = Symbol('nestjs-exhibitor:axios');

export interface AxiosPackages {
  axios: AxiosStatic;
  HttpService: typeof HttpService;
}

/** Loads them at startup and not with this file, so that the error for a missing package says what to install. */
export async function loadAxios(): Promise<AxiosPackages> {
  // The default export, which every version has in ES modules and in CommonJS.
  const { default: axios } = await loadPeer('axios', () => import('axios'));
  const { HttpService } = await loadPeer('@nestjs/axios', () => import('@nestjs/axios'));
  return { axios, HttpService };
}

/** What our adapter has sent of one request: once, unless an interceptor sends it again. */
interface Sent {
  /** Where axios passes on what the adapter returned or threw: the outcome, by that response or error. */
  readonly outcomeOf: Map<unknown, Outcome>;
  /** Where an interceptor has made something else of it. */
  last: Promise<Outcome> | undefined;
}

/**
 * A private `HttpService` on an axios instance of its own. axios calls the interceptors of the host; its adapter sends with the
 * {@link HttpClient}, which knows undici and every time limit. Interceptors add headers and change nothing else.
 */
export class AxiosClient {
  readonly #client: HttpClient;
  readonly #axios: AxiosStatic;
  readonly #http: HttpService;
  readonly #noHeaders: InstanceType<AxiosStatic['AxiosHeaders']>;
  /** Without interceptors, axios gets the adapter only: it takes 15 µs to copy and check the rest. */
  readonly #hasInterceptors: boolean;

  /**
   * @param configure the option `axios`: adds the interceptors of the host
   * @param maxConnections to one origin
   * @throws {ConfigurationError} where it throws
   */
  constructor(
    { axios, HttpService }: AxiosPackages,
    configure: ((instance: AxiosInstance) => unknown) | undefined,
    clock: Clock,
    maxConnections: number,
  ) {
    this.#axios = axios;
    this.#noHeaders = new axios.AxiosHeaders();
    this.#client = new HttpClient(clock, maxConnections);
    this.#hasInterceptors = configure !== undefined;
    const instance = createInstance(axios);
    if (configure !== undefined) {
      addInterceptors(instance, configure);
    }
    this.#http = new HttpService(instance);
  }

  /**
   * The outcome of a request; never rejects. axios calls the interceptors, if there are any, and our adapter, which sends.
   *
   * | axios   | what                                                               | the outcome                           |
   * | ------- | ------------------------------------------------------------------ | ------------------------------------- |
   * | returns | a response of our adapter                                          | that reply                            |
   * |         | anything else, made by an interceptor                              | what was sent last                    |
   * |         | anything else, where an interceptor has replaced our adapter       | a failure of the interceptor          |
   * | throws  | an error of our adapter                                            | that failure                          |
   * |         | the end of the call, since an interceptor may never end            | the failure that this end has caused  |
   * |         | anything else: of an interceptor, or of a header that is none      | a failure of the interceptor          |
   */
  async send(request: OwnRequest, call: Call): Promise<Outcome> {
    const { method, url, headers } = request;
    const shownToInterceptors = this.#hasInterceptors ? { method, url, headers: { ...headers } } : {};
    const sent: Sent = { outcomeOf: new Map(), last: undefined };
    const adapter = this.#adapterFor(request, call, sent);
    try {
      const returned = await call.race(this.#http.axiosRef.request({ adapter, ...shownToInterceptors }));
      return sent.outcomeOf.get(returned) ?? (await sent.last) ?? adapterReplaced();
    } catch (error) {
      const outcome = sent.outcomeOf.get(error);
      if (outcome !== undefined) {
        return outcome;
      }
      const last = await sent.last;
      const status = last?.status;
      if (call.isOver) {
        return last?.kind === 'failed' ? last : failed('the call is over', { blame: 'unknown', status });
      }
      return failedInInterceptor(status, error, this.#passedOn(error, adapter));
    }
  }

  /** Sends with the {@link HttpClient}. Interceptors get any status as a response. */
  #adapterFor(request: OwnRequest, call: Call, sent: Sent): AxiosAdapter {
    return async (config) => {
      const outgoing = this.#hasInterceptors
        ? { ...request, headers: withHeadersOfHost(request.headers, config.headers) }
        : request;
      sent.last = this.#client.send(outgoing, call);
      const outcome = await sent.last;
      if (outcome.kind === 'failed') {
        const error = new ExhibitorError(outcome.code, outcome.message);
        sent.outcomeOf.set(error, outcome);
        throw error;
      }
      const headers = this.#hasInterceptors ? outcome.headers : this.#noHeaders;
      const response = { data: undefined, status: outcome.status, statusText: '', headers, config };
      sent.outcomeOf.set(response, outcome);
      return response;
    };
  }

  /** What an interceptor threw, for the caller; but not an error that axios creates where one cancels: that shows the request. */
  #passedOn(thrown: unknown, adapter: AxiosAdapter): unknown {
    try {
      return this.#axios.isAxiosError(thrown) && thrown.config?.adapter === adapter ? undefined : thrown;
    } catch {
      // An interceptor may throw what cannot be read.
      return undefined;
    }
  }

  /** Closes our connections; the dispatchers of hosts stay open. */
  close(): Promise<void> {
    return this.#client.close();
  }
}

/** @param status of the reply that the interceptor got; `undefined` where it failed before */
function failedInInterceptor(status: number | undefined, thrown: unknown, passedOn: unknown): Failed {
  const message = 'an axios interceptor of the host failed';
  return failed(message, { blame: 'us', cause: 'interceptor', status, thrown, passedOn });
}

function adapterReplaced(): Failed {
  const replaced = new TypeError('an axios interceptor replaced the adapter');
  return failedInInterceptor(undefined, replaced, replaced);
}

/** An instance without the defaults of axios. The host may have set its own there, such as the token of another service. */
function createInstance(axios: AxiosStatic): AxiosInstance {
  const instance = axios.create();
  for (const name of Object.keys(instance.defaults)) {
    Reflect.deleteProperty(instance.defaults, name);
  }
  return instance;
}

/** @throws {ConfigurationError} where the host's function throws, or is async */
function addInterceptors(instance: AxiosInstance, configure: (instance: AxiosInstance) => unknown): void {
  // Interceptors may read the empty default headers, which axios copies for each request.
  const headers = { common: {}, delete: {}, get: {}, head: {}, post: {}, put: {}, patch: {} };
  Object.assign(instance.defaults, { headers });
  let returned: unknown;
  try {
    returned = configure(instance);
  } catch (cause) {
    throw new ConfigurationError([{ path: 'axios', expected: 'threw an error' }], undefined, cause);
  }
  if (returned instanceof Promise) {
    // Requests would not wait for it, and its rejection would end the process.
    returned.catch(() => undefined);
    throw new ConfigurationError([
      { path: 'axios', expected: 'must add its interceptors before it returns' },
    ]);
  }
}
