import type { Dispatcher } from 'undici';

/** How long and how often the service is asked. Module-wide, or per tenant over the module's. */
export interface HttpOptions {
  /** Milliseconds one call may take, its token, retries and waits included. Default 10 000. */
  deadline?: number;
  /** Milliseconds one attempt may take. Default 4 000: a stalled attempt leaves room for another. */
  attemptTimeout?: number;
  /** Requests a call may send at most, the first included. Default 3. */
  attempts?: number;
  /** Largest accepted reply in bytes, decompressed. Default 5 MiB; token, userinfo and key replies 256 KiB at most. */
  maxResponseBytes?: number;
  /** Requests under way at once per tenant. Default 64; a bounded queue waits behind it. */
  maxConcurrent?: number;
  /**
   * Makes the undici dispatcher to use, for a proxy or mTLS. It is given our undici, since dispatchers of another
   * version do not fit. Called once for each tenant it is set on; the host closes what it made.
   *
   * @example
   * dispatcher: ({ ProxyAgent }) => new ProxyAgent('http://proxy.internal:3128')
   */
  dispatcher?: (undici: typeof import('undici')) => Dispatcher;
}

/** {@link HttpOptions} with its defaults. */
export type HttpSettings = Required<Omit<HttpOptions, 'dispatcher'>> & Pick<HttpOptions, 'dispatcher'>;
