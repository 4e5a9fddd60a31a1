import type { IncomingHttpHeaders } from 'node:http';
import type { Dispatcher } from 'undici';
import type { Outcome } from '../outcome.js';
import type { ConnectionState } from './connection-state.js';
import { ReceivedBytes } from './received-bytes.js';
import { isJsonType, isJwtType, parseJson, TOO_LARGE, unpack, UnreadableBody } from './reply-body.js';

/** Bytes of a 4xx or 5xx body that are read; the rest is not needed to explain the refusal. */
const LARGEST_REFUSAL = 64 * 1024;

/**
 * Bytes of one reply that are read in one turn of the event loop. Without this, a socket delivers 2 MiB in a row and delays
 * the small replies of every other tenant.
 */
const READ_PER_TURN = 64 * 1024;

/** Bytes from which a body counts as large: it takes about a millisecond to parse. */
const LARGE_BODY = 128 * 1024;

/**
 * Receives the response to one request from undici, up to the end of its body. Settles once, with an {@link Outcome}; later
 * events are ignored.
 */
export class ResponseHandler implements Dispatcher.DispatchHandler {
  /** The connection undici chose; `undefined` behind a dispatcher of the host. */
  connection: ConnectionState | undefined;
  readonly outcome: Promise<Outcome>;

  readonly #limit: number;
  readonly #acceptsJwt: boolean;
  #settle: ((outcome: Outcome) => void) | undefined;
  #controller: Dispatcher.DispatchController | undefined;
  #isReused = false;
  #bytesBefore = 0;
  #status = 0;
  #headers: Record<string, string | undefined> = {};
  readonly #received = new ReceivedBytes();
  #contentLength = Number.NaN;
  #size = 0;
  #sizeThisTurn = 0;

  /**
   * @param limit largest body in bytes, compressed and decompressed
   * @param acceptsJwt accepts a JWT as well, whose text is then the body
   */
  constructor(limit: number, acceptsJwt = false) {
    this.#limit = limit;
    this.#acceptsJwt = acceptsJwt;
    this.outcome = new Promise((resolve) => {
      this.#settle = resolve;
    });
  }

  /** True once there is an outcome. */
  get isSettled(): boolean {
    return this.#settle === undefined;
  }

  /** Aborts the request: the attempt took too long (`timeout`), or the whole call is over (`over`). */
  stop(why: 'timeout' | 'over'): void {
    const message = why === 'timeout' ? 'the service did not answer in time' : 'the call is over';
    const unsent = this.#controller === undefined;
    this.#abort({ kind: 'failed', why, message, status: this.#status || undefined, unsent });
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.isSettled) {
      controller.abort(new Error('the request was stopped before it was sent'));
      return;
    }
    if (this.connection !== undefined) {
      this.#isReused = this.connection.take();
      this.#bytesBefore = this.connection.bytesRead;
    }
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
  ): void {
    if (status < 200) {
      return;
    }
    this.#status = status;
    for (const name in headers) {
      const value = headers[name];
      this.#headers[name] = Array.isArray(value) ? value.join(', ') : value;
    }
    this.#contentLength = Number(this.#headers['content-length']);
    if (status >= 300 && status < 400) {
      this.#malformed('the service redirects, which is never followed', controller);
    } else if (status < 300 && this.#contentLength > this.#limit) {
      this.#malformed(TOO_LARGE, controller);
    }
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#size += chunk.length;
    if (this.#status >= 400 && this.#size > LARGEST_REFUSAL) {
      this.#abort(this.#answered(undefined), controller);
      return;
    }
    if (this.#size > this.#limit) {
      this.#malformed(TOO_LARGE, controller);
      return;
    }
    if (this.#size === chunk.length && chunk.length === this.#contentLength) {
      this.#received.addWhole(chunk);
    } else {
      this.#received.add(chunk);
    }
    this.#sizeThisTurn += chunk.length;
    if (this.#sizeThisTurn >= READ_PER_TURN) {
      this.#sizeThisTurn = 0;
      controller.pause();
      setImmediate(() => controller.resume());
    }
  }

  onResponseEnd(): void {
    if (this.isSettled) {
      return;
    }
    const data = this.#received.take();
    const encoding = this.#headers['content-encoding'];
    if (encoding === undefined || encoding === 'identity' || data.length === 0) {
      this.#read(data);
    } else {
      void unpack(data, encoding, this.#limit).then((unpacked) => this.#read(unpacked));
    }
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    const hasNoReply = this.#status === 0;
    this.#done({
      kind: 'failed',
      why: 'network',
      message: hasNoReply ? 'the service could not be reached' : 'the reply was cut short',
      reason: this.#controller === undefined ? codeOf(error) : undefined,
      status: this.#status || undefined,
      stale: this.#isReused && hasNoReply && this.connection?.bytesRead === this.#bytesBefore,
    });
  }

  #read(data: Buffer | UnreadableBody): void {
    if (this.isSettled) {
      return;
    }
    if (this.#status === 204) {
      this.#done(this.#answered(undefined));
      return;
    }
    const isRefusal = this.#status >= 400;
    const isJwt = this.#acceptsJwt && !isRefusal && isJwtType(this.#headers['content-type']);
    if (isJwt && data instanceof Buffer) {
      this.#done(this.#answered(data.toString('latin1').trim()));
      return;
    }
    if (!isJwt && !isRefusal && !isJsonType(this.#headers['content-type'])) {
      this.#malformed('its content type is not JSON');
      return;
    }
    const body = data instanceof UnreadableBody ? data : parseJson(data, this.#limit);
    if (!(body instanceof UnreadableBody)) {
      const done = (): void => this.#done(this.#answered(body));
      // What follows a large body takes as long as its parsing and gets a turn of the event loop of its own.
      if (data instanceof Buffer && data.length > LARGE_BODY) {
        setImmediate(done);
      } else {
        done();
      }
    } else if (isRefusal) {
      this.#done(this.#answered(undefined));
    } else {
      this.#malformed(body.why);
    }
  }

  #answered(body: unknown): Outcome {
    return {
      kind: 'answered',
      status: this.#status,
      headers: this.#headers,
      body,
    };
  }

  #malformed(why: string, controller?: Dispatcher.DispatchController): void {
    const message = `the reply of the service cannot be used: ${why}`;
    this.#abort({ kind: 'failed', why: 'malformed', message, status: this.#status }, controller);
  }

  /** Settles, and closes the connection instead of reading the rest of the reply. */
  #abort(outcome: Outcome, controller = this.#controller): void {
    if (this.isSettled) {
      return;
    }
    this.#done(outcome);
    if (controller === undefined) {
      this.connection?.abandon();
    } else {
      controller.abort(new Error('the rest of the reply is not needed'));
    }
  }

  #done(outcome: Outcome): void {
    this.#received.clear();
    this.#settle?.(outcome);
    this.#settle = undefined;
    this.connection?.release(this);
  }
}

/** Of Node and undici. Its message is not shown: it may contain what was sent. */
function codeOf(error: Error): string {
  return 'code' in error && typeof error.code === 'string' ? error.code : 'unknown error';
}
