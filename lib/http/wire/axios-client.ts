import type { HttpService } from '@nestjs/axios';
import type { AxiosAdapter, AxiosInstance, AxiosStatic } from 'axios';
import { ConfigurationError } from '../../errors/configuration.error.js';
import { ExhibitorError } from '../../errors/exhibitor.error.js';
import type { Clock } from '../../call/clock.js';
import { loadPeer } from '../../config/installed-packages.js';
import type { Call } from '../../call/call.js';
import { codeOf, failed, type Failed, type Outcome } from '../outcome.js';
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

/**
 * A private `HttpService` on an axios instance of its own. axios calls the interceptors of the host; its adapter sends with the
 * {@link HttpClient}. From the interceptors come headers and nothing else.
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
   * @throws {ConfigurationError} where it throws
   */
  constructor(
    { axios, HttpService }: AxiosPackages,
    configure: ((instance: AxiosInstance) => unknown) | undefined,
    clock: Clock,
  ) {
    this.#axios = axios;
    this.#noHeaders = new axios.AxiosHeaders();
    this.#client = new HttpClient(clock);
    this.#hasInterceptors = configure !== undefined;
    const instance = createInstance(axios);
    if (configure !== undefined) {
      addInterceptors(instance, configure);
    }
    this.#http = new HttpService(instance);
  }

  /**
   * The outcome of a request; never rejects. An interceptor may never end: then the end of the call is the outcome.
   *
   * A request passes axios also where there are no interceptors, so that there is one way. The outcome does not: what axios returns
   * or throws may be of an interceptor, and tells only whether one failed.
   */
  send(request: OwnRequest, call: Call): Promise<Outcome> {
    /** The request on the wire, once interceptors let it pass. */
    let sending: Promise<Outcome> | undefined;
    /** The last reply. An interceptor may send the request again. */
    let reply: Outcome | undefined;
    /** What interceptors get in place of a response, where that reply is a failure. */
    let failure: ExhibitorError | undefined;

    /** A failure is no `AxiosError`: that one shows the bearer token. Interceptors get any status as a response. */
    const adapter: AxiosAdapter = async (config) => {
      const outgoing = this.#hasInterceptors
        ? { ...request, headers: withHeadersOfHost(request.headers, config.headers) }
        : request;
      sending = this.#client.send(outgoing, call);
      reply = await sending;
      if (reply.kind === 'failed') {
        failure = new ExhibitorError(codeOf(reply) ?? 'service_unavailable', reply.message);
        throw failure;
      }
      const headers = this.#hasInterceptors ? reply.headers : this.#noHeaders;
      return { data: undefined, status: reply.status, statusText: '', headers, config };
    };

    const sendThroughAxios = async (): Promise<Outcome> => {
      const { method, url, headers } = request;
      const seen = this.#hasInterceptors ? { method, url, headers: { ...headers } } : {};
      try {
        await this.#http.axiosRef.request({ adapter, ...seen });
      } catch (error) {
        // An interceptor may throw `undefined`.
        const isOfInterceptor = failure === undefined || error !== failure;
        if (isOfInterceptor) {
          // axios creates errors that show this request, for instance where an interceptor cancels it.
          const isOfAxios = this.#axios.isAxiosError(error) && error.config?.adapter === adapter;
          return failedInInterceptor(reply, error, isOfAxios ? undefined : error);
        }
      }
      if (reply === undefined) {
        const replaced = new TypeError('an axios interceptor replaced the adapter');
        return failedInInterceptor(reply, replaced, replaced);
      }
      return reply;
    };

    return new Promise((resolve) => {
      const leave = (): void => {
        // What is on the wire ends with the same call.
        resolve(
          sending !== undefined && reply === undefined
            ? sending
            : failed('the call is over', { status: reply?.status }),
        );
      };
      call.whenOver(leave);
      void sendThroughAxios()
        // An interceptor may throw what cannot be read. A rejection would end the process.
        .catch((thrown: unknown) => failedInInterceptor(reply, thrown, undefined))
        .then(resolve)
        .then(() => call.off('abort', leave));
    });
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
