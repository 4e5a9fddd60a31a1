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

/** When the application starts, and not with this file: so that one that is missing is named with what to do. */
export async function loadAxios(): Promise<AxiosPackages> {
  // The default export, which every version has in ES modules and in CommonJS.
  const { default: axios } = await loadPeer('axios', () => import('axios'));
  const { HttpService } = await loadPeer('@nestjs/axios', () => import('@nestjs/axios'));
  return { axios, HttpService };
}

/** What became of a request that was given to axios. */
interface Sent {
  /**
   * What {@link HttpClient.send} tells of the request on the wire, and never rejects; `undefined` where no interceptor has let it pass. Of
   * the last one, where an interceptor sends it again.
   */
  outcome: Promise<Outcome> | undefined;
  /** The error by which interceptors were told that this outcome is a failure. */
  told: ExhibitorError | undefined;
}

/**
 * A private `HttpService` on an axios instance of its own. axios calls the interceptors of the host; its adapter sends with the
 * {@link HttpClient}, which knows undici and every time limit. From the interceptors come headers and nothing else.
 */
export class AxiosClient {
  readonly #client: HttpClient;
  readonly #axios: AxiosStatic;
  readonly #http: HttpService;
  readonly #noHeaders: InstanceType<AxiosStatic['AxiosHeaders']>;
  /** Where there are none, axios is given the adapter only: it takes 15 µs to copy and check what nobody reads. */
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
   * The outcome of a request; never rejects. It is the outcome on the wire, unless an interceptor fails.
   *
   * An interceptor may never end. The end of the call then ends the wait for it; what is on the wire ends with the call by itself.
   */
  async send(request: OwnRequest, call: Call): Promise<Outcome> {
    const sent: Sent = { outcome: undefined, told: undefined };
    try {
      return await call.race(this.#sendThroughAxios(request, call, sent));
    } catch {
      const outcome = await sent.outcome;
      return outcome?.kind === 'failed' ? outcome : failed('the call is over', { status: outcome?.status });
    }
  }

  /**
   * A request passes axios also where there are no interceptors, so that there is one way. What axios returns or throws may be of an
   * interceptor, and tells only whether one failed.
   */
  async #sendThroughAxios(request: OwnRequest, call: Call, sent: Sent): Promise<Outcome> {
    const { method, url, headers } = request;
    const seen = this.#hasInterceptors ? { method, url, headers: { ...headers } } : {};
    const adapter = this.#adapterOf(request, call, sent);
    try {
      await this.#http.axiosRef.request({ adapter, ...seen });
    } catch (error) {
      // An interceptor may throw `undefined`.
      if (sent.told === undefined || error !== sent.told) {
        return failedInInterceptor(await sent.outcome, error, this.#causeOf(error, adapter));
      }
    }
    const outcome = await sent.outcome;
    if (outcome === undefined) {
      const replaced = new TypeError('an axios interceptor replaced the adapter');
      return failedInInterceptor(undefined, replaced, replaced);
    }
    return outcome;
  }

  /** Interceptors get any status as a response. A failure is no `AxiosError`: that one shows the bearer token. */
  #adapterOf(request: OwnRequest, call: Call, sent: Sent): AxiosAdapter {
    return async (config) => {
      const outgoing = this.#hasInterceptors
        ? { ...request, headers: withHeadersOfHost(request.headers, config.headers) }
        : request;
      sent.outcome = this.#client.send(outgoing, call);
      const outcome = await sent.outcome;
      if (outcome.kind === 'failed') {
        sent.told = new ExhibitorError(outcome.code, outcome.message);
        throw sent.told;
      }
      const headers = this.#hasInterceptors ? outcome.headers : this.#noHeaders;
      return { data: undefined, status: outcome.status, statusText: '', headers, config };
    };
  }

  /** What of an error of an interceptor is passed on: not what axios creates, for instance where one cancels the request. It shows that. */
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

/** @param reply the one that the interceptor got; `undefined` where it failed before */
function failedInInterceptor(reply: Outcome | undefined, thrown: unknown, cause: unknown): Failed {
  const facts = { cause: 'interceptor', thrown, passedOn: cause, status: reply?.status } as const;
  return failed('an axios interceptor of the host failed', facts);
}

/** An instance without the defaults of axios. The host may have set its own there, such as the token of another service. */
function createInstance(axios: AxiosStatic): AxiosInstance {
  const instance = axios.create();
  for (const name of Object.keys(instance.defaults)) {
    Reflect.deleteProperty(instance.defaults, name);
  }
  return instance;
}

/** @throws {ConfigurationError} where the host's function throws */
function addInterceptors(instance: AxiosInstance, configure: (instance: AxiosInstance) => unknown): void {
  // Interceptors may read the empty default headers, which axios copies for each request.
  const headers = { common: {}, delete: {}, get: {}, head: {}, post: {}, put: {}, patch: {} };
  Object.assign(instance.defaults, { headers });
  try {
    configure(instance);
  } catch (cause) {
    throw new ConfigurationError([{ path: 'axios', expected: 'threw an error' }], undefined, cause);
  }
}
