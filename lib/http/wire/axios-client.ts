import type { HttpService } from '@nestjs/axios';
import type { AxiosAdapter, AxiosInstance, AxiosStatic } from 'axios';
import { ConfigurationError } from '../../errors/configuration.error.js';
import { ExhibitorError } from '../../errors/exhibitor.error.js';
import type { Clock } from '../../call/clock.js';
import { loadPeer } from '../../config/installed-packages.js';
import type { Call } from '../../call/call.js';
import { failed, type Failed, type Outcome } from '../outcome.js';
import { HttpClient, type OutgoingRequest } from './http-client.js';
import { withHeadersOfHost } from './request-headers.js';

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

/** What the adapter of one request did. */
interface AdapterResult {
  /** Of the last request that it sent: an interceptor may send one again. `undefined` until it sends. Never rejects. */
  outcome: Promise<Outcome> | undefined;
  /** Each failure by the error that it threw for it. Not an `AxiosError`, which would show the bearer token to interceptors. */
  readonly failures: Map<unknown, Failed>;
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
   * The outcome of a request; never rejects. axios calls the interceptors, if there are any, and our adapter. It ends in one of five ways:
   *
   * 1. There is a reply, which axios returns.
   * 2. The request failed: axios throws the error of the adapter, unless an interceptor has handled it. Where one sent the request again,
   *    the failure is that of the error.
   * 3. An interceptor replaced the adapter: axios returns, but ours has sent nothing.
   * 4. The call ends first, since an interceptor may never end: `race` throws.
   * 5. An interceptor threw.
   */
  async send(request: OwnRequest, call: Call): Promise<Outcome> {
    const { method, url, headers } = request;
    const shownToInterceptors = this.#hasInterceptors ? { method, url, headers: { ...headers } } : {};
    const result: AdapterResult = { outcome: undefined, failures: new Map() };
    const adapter = this.#adapterFor(request, call, result);
    try {
      await call.race(this.#http.axiosRef.request({ adapter, ...shownToInterceptors }));
    } catch (error) {
      const failure = result.failures.get(error);
      if (failure !== undefined) {
        return failure;
      }
      const outcome = await result.outcome;
      const status = outcome?.status;
      if (call.isOver) {
        return outcome?.kind === 'failed'
          ? outcome
          : failed('the call is over', { blame: 'unknown', status });
      }
      return failedInInterceptor(status, error, this.#causeOf(error, adapter));
    }
    return result.outcome ?? adapterReplaced();
  }

  /** Sends with the {@link HttpClient}. Interceptors get any status as a response. */
  #adapterFor(request: OwnRequest, call: Call, result: AdapterResult): AxiosAdapter {
    return async (config) => {
      const outgoing = this.#hasInterceptors
        ? { ...request, headers: withHeadersOfHost(request.headers, config.headers) }
        : request;
      result.outcome = this.#client.send(outgoing, call);
      const outcome = await result.outcome;
      if (outcome.kind === 'failed') {
        const error = new ExhibitorError(outcome.code, outcome.message);
        result.failures.set(error, outcome);
        throw error;
      }
      const headers = this.#hasInterceptors ? outcome.headers : this.#noHeaders;
      return { data: undefined, status: outcome.status, statusText: '', headers, config };
    };
  }

  /** The `cause` of our error: what an interceptor threw, but not an error that axios creates where one cancels. That shows the request. */
  #causeOf(thrown: unknown, adapter: AxiosAdapter): unknown {
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
