import { HttpService } from '@nestjs/axios';
// The default export, which every version has in ES modules and in CommonJS.
import axios, { type AxiosInstance } from 'axios';
import { ConfigurationError } from '../../errors/configuration.error.js';
import type { Clock } from '../../time/clock.js';
import type { Deadline } from '../../time/deadline.js';
import type { Outcome } from '../outcome.js';
import { AxiosPassage, type AxiosTools, type OutgoingRequest } from './axios-passage.js';
import { Connections } from './connections.js';
import { ResponseHandler } from './response-handler.js';
import { UnfinishedReplies } from './unfinished-replies.js';

/**
 * A private `HttpService` on an axios instance of its own. axios calls the interceptors of the host; undici sends, and we read
 * the reply. From the interceptors come headers and nothing else.
 */
export class AxiosClient {
  readonly #tools: AxiosTools;
  readonly #replies = new UnfinishedReplies();

  /**
   * @param configure the option `axios`: adds the interceptors of the host
   * @throws {ConfigurationError} where it throws
   */
  constructor(clock: Clock, configure: ((instance: AxiosInstance) => unknown) | undefined) {
    const hasInterceptors = configure !== undefined;
    const instance = createInstance(hasInterceptors);
    try {
      configure?.(instance);
    } catch (cause) {
      throw new ConfigurationError([{ path: 'axios', expected: 'threw an error' }], undefined, cause);
    }
    this.#tools = { http: new HttpService(instance), hasInterceptors, connections: new Connections(clock) };
  }

  /**
   * Sends a request and answers its outcome; never rejects. What ends first is the answer: the way of the request through axios,
   * or the call, which then stops the request. An interceptor may never end, and its late result is ignored.
   */
  send(request: OutgoingRequest, deadline: Deadline): Promise<Outcome> {
    const passage = new AxiosPassage(request, new ResponseHandler(request, this.#replies), this.#tools);
    return new Promise((resolve) => {
      const forget = deadline.onOver(() => resolve(passage.stop()));
      void passage.run().then(resolve).then(forget);
    });
  }

  /** Closes our connections; the dispatchers of hosts stay open. */
  close(): Promise<void> {
    return this.#tools.connections.close();
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
