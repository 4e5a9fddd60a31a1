import { validateHeaderName, validateHeaderValue } from 'node:http';
import { HttpService } from '@nestjs/axios';
// The default export, which every version has in ES modules and in CommonJS.
import axios, { type AxiosAdapter, type AxiosInstance, type AxiosRequestConfig } from 'axios';
import { ConfigurationError } from '../../errors/configuration.error.js';
import { ExhibitorError } from '../../errors/exhibitor.error.js';
import type { Deadline } from '../../time/deadline.js';
import { codeOf, type Failed, type Outcome } from '../outcome.js';
import type { RequestHeaders, TransportRequest } from '../transport-request.interface.js';
import { HttpClient, type OutgoingRequest } from './http-client.js';
import { ACCEPTED_ENCODINGS } from './reply-body.js';

/** A request of ours, before interceptors of the host added headers. */
export type OwnRequest = OutgoingRequest & { headers: Readonly<Record<string, string>> };

const NO_HEADERS = new axios.AxiosHeaders();

/**
 * A private `HttpService` on an axios instance of its own. axios calls the interceptors of the host; its adapter sends with the
 * {@link HttpClient}. From the interceptors come headers and nothing else.
 */
export class AxiosClient {
  readonly #client = new HttpClient();
  readonly #http: HttpService;
  readonly #hasInterceptors: boolean;

  /**
   * @param configure the option `axios`: adds the interceptors of the host
   * @throws {ConfigurationError} where it throws
   */
  constructor(configure: ((instance: AxiosInstance) => unknown) | undefined) {
    this.#hasInterceptors = configure !== undefined;
    const instance = createInstance(this.#hasInterceptors);
    try {
      configure?.(instance);
    } catch (cause) {
      throw new ConfigurationError([{ path: 'axios', expected: 'threw an error' }], undefined, cause);
    }
    this.#http = new HttpService(instance);
  }

  /** Answers the outcome of a request; never rejects. An interceptor may never end: then the end of the call is the outcome. */
  send(request: OwnRequest, deadline: Deadline): Promise<Outcome> {
    let sending: Promise<Outcome> | undefined;
    let reply: Outcome | undefined;
    let failure: ExhibitorError | undefined;

    /** A failure is no `AxiosError`: that one shows the bearer token. Interceptors get any status as a response. */
    const adapter: AxiosAdapter = async (config) => {
      const { headers } = request;
      sending = this.#client.send(
        this.#hasInterceptors ? { ...request, headers: withHeadersOfHost(headers, config.headers) } : request,
        deadline,
      );
      reply = await sending;
      if (reply.kind === 'failed') {
        failure = new ExhibitorError(codeOf(reply) ?? 'service_unavailable', reply.message);
        throw failure;
      }
      return {
        data: undefined,
        status: reply.status,
        statusText: '',
        headers: this.#hasInterceptors ? reply.headers : NO_HEADERS,
        config,
      };
    };

    const whole = async (): Promise<Outcome> => {
      const { method, url, headers } = request;
      // Without interceptors, axios is given the adapter only: it takes 15 µs to copy and check the rest.
      const seen = this.#hasInterceptors ? { method, url, headers: { ...headers } } : {};
      try {
        await this.#http.axiosRef.request({ adapter, ...seen });
      } catch (error) {
        if (failure === undefined || error !== failure) {
          // axios creates errors that show this request, for instance where an interceptor cancels it.
          const isOfAxios = axios.isAxiosError(error) && error.config?.adapter === adapter;
          return failedInInterceptor(isOfAxios ? undefined : error, reply);
        }
      }
      return reply ?? failedInInterceptor(new TypeError('an axios interceptor replaced the adapter'));
    };

    return new Promise((resolve) => {
      const forget = deadline.onOver(() => {
        resolve(reply === undefined && sending !== undefined ? sending : overInInterceptor(reply));
      });
      void whole().then(resolve).then(forget);
    });
  }

  /** Closes our connections; the dispatchers of hosts stay open. */
  close(): Promise<void> {
    return this.#client.close();
  }
}

function failedInInterceptor(cause: unknown, reply?: Outcome): Failed {
  const message = 'an axios interceptor of the host failed';
  return { kind: 'failed', why: 'interceptor', message, cause, ...placeOf(reply) };
}

function overInInterceptor(reply: Outcome | undefined): Failed {
  return { kind: 'failed', why: 'over', message: 'the call is over', ...placeOf(reply) };
}

function placeOf(reply: Outcome | undefined): Pick<Failed, 'phase' | 'status'> {
  return reply === undefined
    ? { phase: 'request interceptor' }
    : { phase: 'response interceptor', status: reply.status };
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

/** All headers of a request. */
export function requestHeaders({ headers, body }: TransportRequest): RequestHeaders {
  // One spread, at the end: V8 takes twenty times as long for any other.
  const all = {
    accept: 'application/json',
    'accept-encoding': ACCEPTED_ENCODINGS,
    'user-agent': 'nestjs-exhibitor',
    ...headers,
  };
  return body === undefined ? all : { ...all, 'content-type': 'application/x-www-form-urlencoded' };
}

/**
 * Headers that interceptors of the host cannot set. They name the tenant and its rights, say what is sent and accepted, or
 * belong to the connection.
 */
const OWN_HEADERS: ReadonlySet<string> = new Set([
  'authorization',
  'x-tenant-id',
  'accept',
  'accept-encoding',
  'content-type',
  'content-length',
  'host',
  'connection',
  'keep-alive',
  'proxy-connection',
  'transfer-encoding',
  'upgrade',
  'expect',
  'te',
  'trailer',
]);

/**
 * The headers of a request together with those that interceptors of the host added.
 *
 * @throws {TypeError} where one of them is no HTTP header. The message names it, without its value
 */
export function withHeadersOfHost(
  own: Readonly<Record<string, string>>,
  seen: NonNullable<AxiosRequestConfig['headers']>,
): Record<string, string | string[]> {
  const all: Record<string, string | string[]> = { ...own };
  for (const [anyCase, value] of Object.entries(seen)) {
    const name = anyCase.toLowerCase();
    if (
      value === own[name] ||
      OWN_HEADERS.has(name) ||
      value === undefined ||
      value === null ||
      value === false
    ) {
      continue;
    }
    const text = Array.isArray(value) ? value.map(String) : String(value);
    validateHeaderName(name);
    [text].flat().forEach((one) => validateHeaderValue(name, one));
    all[name] = text;
  }
  return all;
}
