import { HttpService } from '@nestjs/axios';
// The default export, which every version has in ES modules and in CommonJS.
import axios, { type AxiosAdapter, type AxiosInstance } from 'axios';
import { ConfigurationError } from '../../errors/configuration.error.js';
import { ExhibitorError } from '../../errors/exhibitor.error.js';
import type { Deadline } from '../../time/deadline.js';
import { codeOf, type Failed, type Outcome } from '../outcome.js';
import { HttpClient, type OutgoingRequest } from './http-client.js';
import { withHeadersOfHost } from './request-headers.js';

/** A request of ours, before interceptors of the host added headers. */
export type OwnRequest = OutgoingRequest & { headers: Readonly<Record<string, string>> };

/** How far a request has come. */
type Stage =
  | { name: 'request interceptor' }
  | { name: 'sent'; outcome: Promise<Outcome> }
  /** `failure`: what interceptors get in place of a response. */
  | { name: 'response interceptor'; reply: Outcome; failure: ExhibitorError | undefined };

const NO_HEADERS = new axios.AxiosHeaders();

/**
 * A private `HttpService` on an axios instance of its own. axios calls the interceptors of the host; its adapter sends with the
 * {@link HttpClient}. From the interceptors come headers and nothing else.
 */
export class AxiosClient {
  readonly #client = new HttpClient();
  readonly #http: HttpService;
  /** Where there are none, axios is given the adapter only: it takes 15 µs to copy and check what nobody reads. */
  readonly #hasInterceptors: boolean;

  /**
   * @param configure the option `axios`: adds the interceptors of the host
   * @throws {ConfigurationError} where it throws
   */
  constructor(configure: ((instance: AxiosInstance) => unknown) | undefined) {
    this.#hasInterceptors = configure !== undefined;
    const instance = createInstance();
    if (configure !== undefined) {
      addInterceptors(instance, configure);
    }
    this.#http = new HttpService(instance);
  }

  /** Answers the outcome of a request; never rejects. An interceptor may never end: then the end of the call is the outcome. */
  send(request: OwnRequest, deadline: Deadline): Promise<Outcome> {
    // The outcome travels beside axios: what axios returns or throws may be of an interceptor, and tells only whether one failed.
    let stage: Stage = { name: 'request interceptor' };

    /** A failure is no `AxiosError`: that one shows the bearer token. Interceptors get any status as a response. */
    const adapter: AxiosAdapter = async (config) => {
      const outgoing = this.#hasInterceptors
        ? { ...request, headers: withHeadersOfHost(request.headers, config.headers) }
        : request;
      const outcome = this.#client.send(outgoing, deadline);
      // Where an interceptor sends the request again, the former reply stays until there is a new one.
      if (stage.name !== 'response interceptor') {
        stage = { name: 'sent', outcome };
      }
      const reply = await outcome;
      if (reply.kind === 'failed') {
        const failure = new ExhibitorError(codeOf(reply) ?? 'service_unavailable', reply.message);
        stage = { name: 'response interceptor', reply, failure };
        throw failure;
      }
      stage = { name: 'response interceptor', reply, failure: undefined };
      const headers = this.#hasInterceptors ? reply.headers : NO_HEADERS;
      return { data: undefined, status: reply.status, statusText: '', headers, config };
    };

    const whole = async (): Promise<Outcome> => {
      const { method, url, headers } = request;
      const seen = this.#hasInterceptors ? { method, url, headers: { ...headers } } : {};
      try {
        await this.#http.axiosRef.request({ adapter, ...seen });
      } catch (error) {
        const failure = stage.name === 'response interceptor' ? stage.failure : undefined;
        // An interceptor may throw `undefined`.
        if (failure === undefined || error !== failure) {
          // axios creates errors that show this request, for instance where an interceptor cancels it.
          const isOfAxios = axios.isAxiosError(error) && error.config?.adapter === adapter;
          return failedInInterceptor(stage, isOfAxios ? undefined : error);
        }
      }
      return stage.name === 'response interceptor'
        ? stage.reply
        : failedInInterceptor(stage, new TypeError('an axios interceptor replaced the adapter'));
    };

    return new Promise((resolve) => {
      const forget = deadline.onOver(() => {
        resolve(stage.name === 'sent' ? stage.outcome : overInInterceptor(stage));
      });
      void whole().then(resolve).then(forget);
    });
  }

  /** Closes our connections; the dispatchers of hosts stay open. */
  close(): Promise<void> {
    return this.#client.close();
  }
}

function failedInInterceptor(stage: Stage, cause: unknown): Failed {
  const message = 'an axios interceptor of the host failed';
  return { kind: 'failed', why: 'interceptor', message, cause, ...placeOf(stage) };
}

function overInInterceptor(stage: Stage): Failed {
  return { kind: 'failed', why: 'over', message: 'the call is over', ...placeOf(stage) };
}

/** No phase where the request is on the wire, since it counts as sent. An interceptor that wraps the adapter may fail meanwhile. */
function placeOf(stage: Stage): Pick<Failed, 'phase' | 'status'> {
  switch (stage.name) {
    case 'request interceptor':
      return { phase: stage.name };
    case 'sent':
      return {};
    case 'response interceptor':
      return { phase: stage.name, status: stage.reply.status };
  }
}

/** An instance without the defaults of axios. The host may have set its own there, such as the token of another service. */
function createInstance(): AxiosInstance {
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
