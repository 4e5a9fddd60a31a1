import { AsyncLocalStorage } from 'node:async_hooks';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { closeSync, openSync } from 'node:fs';
import { devNull } from 'node:os';
import { isRecord } from '../../model/json-values.js';
import { failed, type Failed } from '../outcome.js';

/** Codes of Node and undici for a connection that the other side closed or reset. */
const RESET: ReadonlySet<string> = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE']);
/** Codes for something else than HTTP on a connection. Those of the HTTP parser begin with `HPE_`. */
const NO_HTTP: ReadonlySet<string> = new Set(['UND_ERR_INFO', 'UND_ERR_HEADERS_OVERFLOW']);
/** Codes for a limit of this process or machine, which no partner and no address causes. */
const LOCAL = /^(?:EMFILE|ENFILE|EADDRNOTAVAIL|EADDRINUSE|ENOBUFS|ENOMEM|ENETDOWN|EPERM|EACCES)$/;

const CONNECT_ERROR = 'undici:client:connectError';

/** How a request was sent. */
interface Route {
  /** Of its URL. */
  readonly origin: string;
  /** Of the host; `undefined` for our own connections. */
  readonly dispatcher: object | undefined;
}

/**
 * Tells why a request ended without a whole reply. It hears of each connection that undici could not make: nothing else tells a
 * reset before TLS is done from that of a kept-alive connection, and a proxy from what is behind it.
 */
export class NetworkErrors {
  /** Name and port of the server that was not reached, by the error. That of a proxy is published again for the connection through it. */
  readonly #unreached = new WeakMap<object, string>();
  /** Tells the connections of our requests from those of the host, whose clients may be the same. */
  readonly #ours = new AsyncLocalStorage<true>();

  constructor() {
    subscribe(CONNECT_ERROR, this.#hear);
  }

  close(): void {
    unsubscribe(CONNECT_ERROR, this.#hear);
  }

  /** Sends a request by the host's dispatcher. */
  watched<T>(send: () => T): T {
    return this.#ours.run(true, send);
  }

  /**
   * The first that is so: the reply was cut; a connection was reset; it had no HTTP; a limit of this machine; else there was no connection.
   *
   * @param error with which undici ended the request
   */
  failure(error: unknown, { status, sentAt }: Pick<Failed, 'status' | 'sentAt'>, route: Route): Failed {
    const network = { cause: 'network', repeat: 'later', status, sentAt } as const;
    if (status !== undefined) {
      return failed('the reply was cut short', { ...network, blame: 'partner' });
    }
    const message = 'the service could not be reached';
    const code = localCode(error);
    const unreached = isRecord(error) ? this.#unreached.get(error) : undefined;
    const isConnected = unreached === undefined;
    if (isConnected && RESET.has(code)) {
      const reset = { ...network, noReply: 'unanswered', repeat: 'at once' } as const;
      // A proxy without TLS behind it: it or the service.
      return route.dispatcher !== undefined && route.origin.startsWith('http:')
        ? failed(message, { ...reset, blame: 'either', why: code })
        : failed(message, { ...reset, blame: 'partner' });
    }
    if (isConnected && (NO_HTTP.has(code) || code.startsWith('HPE_'))) {
      return failed(message, { ...network, noReply: 'unanswered', blame: 'partner' });
    }
    if (LOCAL.test(code)) {
      const limit = `${code}, a limit of this process or machine: open files (ulimit -n), ports, memory or a firewall`;
      return failed(message, { ...network, blame: 'us', why: limit });
    }
    return failed(message, {
      ...network,
      noReply: 'unreached',
      ...whyUnreached(error, code, route, unreached),
    });
  }

  readonly #hear = (message: unknown): void => {
    const { error, connectParams }: Record<string, unknown> = Object(message);
    if (isRecord(error) && !this.#unreached.has(error)) {
      this.#unreached.set(error, String(Object(connectParams).host));
      // After its own code undici connects again at once, without end, and for aborted requests too (measured: 1,200 times a
      // second to a proxy that closes the connection).
      if (error['code'] === 'UND_ERR_SOCKET' && this.#ours.getStore() === true) {
        error['code'] = 'ECONNRESET';
      }
    }
  };
}

/** A proxy failed where it says so, or where another server than that of the request was not reached. Else it is one of both. */
function whyUnreached(
  error: unknown,
  code: string,
  { origin, dispatcher }: Route,
  unreached: string | undefined,
): Pick<Failed, 'blame' | 'why'> {
  if (dispatcher === undefined) {
    return { blame: 'partner', why: code };
  }
  // undici has the status in the message only.
  const [, status] = /^Proxy .*\((\d{3})\)/.exec(String(Object(error).message)) ?? [];
  if (status !== undefined) {
    return { blame: 'dispatcher', why: `the proxy answered ${status}` };
  }
  return unreached === undefined || unreached === new URL(origin).host
    ? { blame: 'either', why: code }
    : { blame: 'dispatcher', why: `${code} at ${unreached}` };
}

/** Without a file descriptor, look-ups of names end as those of unknown names, or with EINVAL (measured, glibc). */
function localCode(error: unknown): string {
  const code = errorCode(error);
  if (isRecord(error) && error['syscall'] === 'getaddrinfo') {
    try {
      closeSync(openSync(devNull, 'r'));
    } catch (opening) {
      return errorCode(opening) === 'EMFILE' ? 'EMFILE' : code;
    }
  }
  return code;
}

/** Of Node and undici. The message is not shown: it may contain what was sent. */
export function errorCode(error: unknown): string {
  const code: unknown = isRecord(error) ? error['code'] : undefined;
  return typeof code === 'string' ? code : 'unknown error';
}
