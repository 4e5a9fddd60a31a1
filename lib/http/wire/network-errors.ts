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

/**
 * Tells why a request ended without a whole reply. It hears of each connection that undici could not make: nothing else tells a
 * reset before TLS is done from that of a kept-alive connection, and a proxy from what is behind it.
 */
export class NetworkErrors {
  /** Host to which there was no connection, by the error. The error of a proxy is published again for the connection through it. */
  readonly #unconnected = new WeakMap<object, string>();
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

  /** @param origin of a request that the host's dispatcher sent */
  failure(error: unknown, { status, sentAt }: Pick<Failed, 'status' | 'sentAt'>, origin?: string): Failed {
    const network = { cause: 'network', repeat: 'later', status, sentAt } as const;
    if (status !== undefined) {
      return failed('the reply was cut short', network);
    }
    const message = 'the service could not be reached';
    const host = isRecord(error) ? this.#unconnected.get(error) : undefined;
    const code = localCode(error);
    if (host === undefined && RESET.has(code)) {
      // A proxy without TLS behind it: it or the service.
      const isProxied = origin?.startsWith('http:') === true;
      const told: Reason = isProxied ? { errorCode: code, suspects: EITHER } : {};
      return failed(message, { ...network, noReply: 'silent', repeat: 'at once', ...told });
    }
    if (host === undefined && (NO_HTTP.has(code) || code.startsWith('HPE_'))) {
      return failed(message, { ...network, noReply: 'silent' });
    }
    if (LOCAL.test(code)) {
      const limit = `${code}, a limit of this process or machine: open files (ulimit -n), ports, memory or a firewall`;
      return failed(message, { ...network, errorCode: limit, suspects: [] });
    }
    const told = origin === undefined ? { errorCode: code } : behind(origin, error, code, host);
    return failed(message, { ...network, noReply: 'unreached', ...told });
  }

  readonly #hear = (message: unknown): void => {
    const { error, connectParams }: Record<string, unknown> = Object(message);
    if (isRecord(error) && !this.#unconnected.has(error)) {
      this.#unconnected.set(error, String(Object(connectParams).host));
      // After its own code undici connects again at once, without end, and for aborted requests too (measured: 1,200 times a
      // second to a proxy that closes the connection).
      if (error['code'] === 'UND_ERR_SOCKET' && this.#ours.getStore() === true) {
        error['code'] = 'ECONNRESET';
      }
    }
  };
}

type Reason = Pick<Failed, 'errorCode' | 'suspects'>;

const EITHER = ['address', 'dispatcher'] as const;

/** The proxy failed where it says so, or where there was no connection to another host than that of the request. Else it is one of both. */
function behind(origin: string, error: unknown, code: string, host?: string): Reason {
  // undici has the status in the message only.
  const [, status] = /^Proxy .*\((\d{3})\)/.exec(String(Object(error).message)) ?? [];
  if (status !== undefined) {
    return { errorCode: `the proxy answered ${status}`, suspects: ['dispatcher'] };
  }
  return host === undefined || host === new URL(origin).host
    ? { errorCode: code, suspects: EITHER }
    : { errorCode: `${code} at ${host}`, suspects: ['dispatcher'] };
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
