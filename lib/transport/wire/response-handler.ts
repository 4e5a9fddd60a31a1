import type { IncomingHttpHeaders } from 'node:http';
import type { Dispatcher } from 'undici';
import type { Failed, Outcome } from '../outcome.js';
import type { ResponseReceiver } from './connections.js';
import { isJsonType, isJwtType, parseJson, unpack, UnreadableBody } from './reply-body.js';
import { LARGEST_REFUSAL, TOO_LARGE } from './reply-limits.js';
import { errorCode, isStaleConnection } from './stale-connection.js';

/**
 * Bytes of one reply that are read in one turn of the event loop. Without this, a socket delivers 2 MiB in a row and delays
 * the small replies of every other tenant.
 */
const READ_PER_TURN = 64 * 1024;

/** Bytes from which a body counts as large: it takes about a millisecond to parse. */
const LARGE_BODY = 128 * 1024;

const EMPTY = Buffer.alloc(0);
/** Least bytes of a block of a body that arrives in parts. */
const SMALLEST_BLOCK = 4 * 1024;

/**
 * Receives the response to one request from undici, up to the end of its body. Settles once, with an {@link Outcome}; later
 * events are ignored.
 */
export class ResponseHandler implements ResponseReceiver {
  isOnNewConnection = false;
  readonly outcome: Promise<Outcome>;

  readonly #limit: number;
  readonly #acceptsJwt: boolean;
  #settle: ((outcome: Outcome) => void) | undefined;
  #controller: Dispatcher.DispatchController | undefined;
  #status = 0;
  #headers: Record<string, string | undefined> = {};
  /** The body so far, each block but the last one full. */
  #blocks: Buffer[] = [];
  /** What is free of the last block. */
  #free: Buffer = EMPTY;
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
  stop(why: 'timeout' | 'over'): Failed {
    const message = why === 'timeout' ? 'the service did not answer in time' : 'the call is over';
    const status = this.#status || undefined;
    const failed: Failed = { kind: 'failed', why, message, status, unsent: !this.isSent };
    this.#abort(failed);
    return failed;
  }

  /** The request could not be given to undici. */
  fail(message: string): Failed {
    const failed: Failed = { kind: 'failed', why: 'network', message };
    this.#done(failed);
    return failed;
  }

  get isSent(): boolean {
    return this.#controller !== undefined;
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.isSettled) {
      controller.abort(new Error('the request was stopped before it was sent'));
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
    this.#keep(chunk);
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
    const [first] = this.#blocks;
    const data = first?.length === this.#size ? first : Buffer.concat(this.#blocks, this.#size);
    const encoding = this.#headers['content-encoding'];
    if (encoding === undefined || encoding === 'identity' || data.length === 0) {
      this.#read(data);
    } else {
      void unpack(data, encoding, this.#limit).then((unpacked) => this.#read(unpacked));
    }
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    const hasReply = this.#status !== 0;
    this.#done({
      kind: 'failed',
      why: 'network',
      message: hasReply ? 'the reply was cut short' : 'the service could not be reached',
      reason: this.isSent ? undefined : errorCode(error),
      status: this.#status || undefined,
      stale: this.isSent && isStaleConnection(error, this, hasReply),
    });
  }

  /**
   * Keeps a part of the body. A small chunk is copied: its Buffer takes about a hundred bytes of heap, and may keep the 64 KiB
   * that were read from the socket. One that fills its memory is not, since V8 collects garbage by what is allocated outside
   * its heap as well. Blocks are not enlarged: to copy megabytes in one turn delays the small replies of every other tenant.
   */
  #keep(chunk: Buffer): void {
    const isWhole = chunk.length === this.#contentLength;
    if (isWhole || chunk.length >= chunk.buffer.byteLength / 2) {
      const last = this.#blocks.pop();
      if (last !== undefined) {
        this.#blocks.push(last.subarray(0, last.length - this.#free.length));
      }
      this.#free = EMPTY;
      this.#blocks.push(chunk);
      return;
    }
    let rest = chunk;
    while (rest.length > 0) {
      if (this.#free.length === 0) {
        this.#free = Buffer.allocUnsafeSlow(Math.max(SMALLEST_BLOCK, rest.length));
        this.#blocks.push(this.#free);
      }
      const copied = rest.copy(this.#free);
      this.#free = this.#free.subarray(copied);
      rest = rest.subarray(copied);
    }
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
    controller?.abort(new Error('the rest of the reply is not needed'));
  }

  #done(outcome: Outcome): void {
    this.#blocks = [];
    this.#settle?.(outcome);
    this.#settle = undefined;
  }
}
