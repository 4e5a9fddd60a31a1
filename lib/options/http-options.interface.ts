import type { Dispatcher } from 'undici';

/** Time limits, retries and sizes of requests. Those of a tenant override those of the module. */
export interface HttpOptions {
  /** Time limit of one call in ms, including token, retries and waits. Default 10 000. */
  deadline?: number | undefined;
  /** Time limit of one attempt in ms, connecting included; at most `deadline`. Default 4 000, so that there is time for another attempt. */
  attemptTimeout?: number | undefined;
  /**
   * Largest number of tries at one request, including the first. Default 3. One replay of a request that was reset before any
   * reply is not counted. After a 401 the request is sent with another token and counts anew.
   */
  attempts?: number | undefined;
  /** Largest accepted reply in bytes, decompressed. Default 2 MiB; token, userinfo and key replies 256 KiB at most. */
  maxResponseBytes?: number | undefined;
  /** Concurrent requests per tenant, origin and purpose (token, list, lookup, login). Default 64. Further requests wait in a bounded queue. */
  maxConcurrent?: number | undefined;
  /**
   * Creates the undici dispatcher, for a proxy or mTLS. Its argument is our undici, since dispatchers of another version are not
   * compatible. Called once for the module, or once for each tenant that sets it. The host closes the dispatcher.
   *
   * @example
   * dispatcher: ({ ProxyAgent }) => new ProxyAgent('http://proxy.internal:3128')
   */
  dispatcher?: ((undici: typeof import('undici')) => Dispatcher) | undefined;
}

/** {@link HttpOptions} with its defaults. */
export type HttpSettings = Required<Omit<HttpOptions, 'dispatcher'>> & Pick<HttpOptions, 'dispatcher'>;
