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

const NOT_REACHED = 'the service could not be reached';

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
   * The first row that fits counts. A proxy is any dispatcher of the host.
   *
   * | a request ended                              | there is no reply: it was | sent again | to blame                                      |
   * | -------------------------------------------- | ------------------------- | ---------- | --------------------------------------------- |
   * | after the head of its reply                  | (cut)                     | later      | the partner                                   |
   * | by a reset of a connection that was made     | unanswered                | at once    | the partner; behind a proxy without TLS: either |
   * | since what answers there is no HTTP          | unanswered                | later      | the partner                                   |
   * | by a limit of this process or machine        |                           | later      | us                                            |
   * | since the proxy refused it                   | unreached                 | later      | the proxy                                     |
   * | since another server was not reached         | unreached                 | later      | the proxy                                     |
   * | since its server was not reached, or else    | unreached                 | later      | the partner; through a proxy: either          |
   *
   * @param error with which undici ended the request
   */
  failure(
    error: unknown,
    { status, sentAt }: Pick<Failed, 'status' | 'sentAt'>,
    { origin, dispatcher }: Route,
  ): Failed {
    const later = { cause: 'network', repeat: 'later', status, sentAt } as const;
    if (status !== undefined) {
      return failed('the reply was cut short', { ...later, blame: 'partner' });
    }
    const code = localCode(error);
    const unreached = isRecord(error) ? this.#unreached.get(error) : undefined;
    const isConnected = unreached === undefined;
    if (isConnected && RESET.has(code)) {
      const reset = { ...later, noReply: 'unanswered', repeat: 'at once' } as const;
      return dispatcher !== undefined && origin.startsWith('http:')
        ? failed(NOT_REACHED, { ...reset, blame: 'either', why: code })
        : failed(NOT_REACHED, { ...reset, blame: 'partner' });
    }
    if (isConnected && (NO_HTTP.has(code) || code.startsWith('HPE_'))) {
      return failed(NOT_REACHED, { ...later, noReply: 'unanswered', blame: 'partner' });
    }
    if (LOCAL.test(code)) {
      const limit = `${code}, a limit of this process or machine: open files (ulimit -n), ports, memory or a firewall`;
      return failed(NOT_REACHED, { ...later, blame: 'us', why: limit });
    }
    // undici has the status of a proxy in the message only.
    const [, proxyStatus] = /^Proxy .*\((\d{3})\)/.exec(String(Object(error).message)) ?? [];
    if (dispatcher !== undefined && proxyStatus !== undefined) {
      return proxyRefused(proxyStatus, sentAt);
    }
    const isOther = dispatcher !== undefined && !isConnected && unreached !== new URL(origin).host;
    const notReached = { ...later, noReply: 'unreached' } as const;
    if (isOther) {
      return failed(NOT_REACHED, { ...notReached, blame: 'dispatcher', why: `${code} at ${unreached}` });
    }
    const blame = dispatcher === undefined ? 'partner' : 'either';
    return failed(NOT_REACHED, { ...notReached, blame, why: code });
  }

  readonly #hear = (message: unknown): void => {
    const { error, connectParams }: Record<string, unknown> = Object(message);
    if (isRecord(error) && !this.#unreached.has(error)) {
      this.#unreached.set(error, String(Object(connectParams).host));
      if (this.#ours.getStore() === true) {
        doNotReconnect(error);
      }
    }
  };
}

/**
 * After an error of its own code undici connects again at once, without end, and for aborted requests too (measured: 1,200 times a second
 * to a proxy that closes the connection).
 */
function doNotReconnect(error: Record<string, unknown>): void {
  if (error['code'] === 'UND_ERR_SOCKET') {
    error['code'] = 'ECONNRESET';
  }
}

/** The proxy of the host answered itself, with this status. */
export function proxyRefused(status: string, sentAt: number | undefined): Failed {
  const why = `the proxy answered ${status}`;
  return failed(NOT_REACHED, {
    cause: 'network',
    repeat: 'later',
    noReply: 'unreached',
    blame: 'dispatcher',
    why,
    sentAt,
  });
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
