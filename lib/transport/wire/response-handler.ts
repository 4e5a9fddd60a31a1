import type { IncomingHttpHeaders } from 'node:http';
import type { GenericAbortSignal } from 'axios';
import type { Dispatcher } from 'undici';
import type { ConnectionState } from './connection-state.js';
import type { Outcome } from '../outcome.js';
import { isJsonType, parseJson, TOO_LARGE, unpack, UnreadableBody } from './reply-body.js';

/** A refusal explains itself in a few bytes; more is not worth waiting for. */
const LARGEST_REFUSAL = 64 * 1024;

/**
 * So many bytes of one reply are taken in one turn of the event loop. Unasked, a socket hands over 2 MiB in a row, and
 * the small replies of every other tenant wait behind it.
 */
const BITE = 64 * 1024;

/**
 * One request on the wire, from dispatch to the end of its body. It is handed to axios as its `signal`, where the
 * adapter finds it. It settles once, with an {@link Outcome}; whatever comes later is passed over.
 */
export class ResponseHandler implements Dispatcher.DispatchHandler, GenericAbortSignal {
  /** Never: axios would make an error of it, while an exchange that was stopped has settled with its outcome. */
  readonly aborted = false;
  readonly headers: Readonly<Record<string, string>>;
  /** The host's own way out; ours if none. */
  readonly dispatcher: Dispatcher | undefined;
  /** To be sent on a connection of its own. */
  readonly fresh: boolean;
  /** The connection undici chose; unknown behind a dispatcher of the host. */
  connection: ConnectionState | undefined;
  readonly outcome: Promise<Outcome>;

  #settle: ((outcome: Outcome) => void) | undefined;
  #controller: Dispatcher.DispatchController | undefined;
  #reused = false;
  #bytesBefore = 0;
  #status = 0;
  #replyHeaders: Record<string, string | undefined> = {};
  #chunks: Buffer[] = [];
  #size = 0;
  #bite = 0;

  /** @param limit largest body in bytes, packed or unpacked */
  constructor(
    private readonly limit: number,
    route: Pick<ResponseHandler, 'headers' | 'dispatcher' | 'fresh'>,
  ) {
    this.headers = route.headers;
    this.dispatcher = route.dispatcher;
    this.fresh = route.fresh;
    this.outcome = new Promise((resolve) => {
      this.#settle = resolve;
    });
  }

  /** True once there is an outcome: nobody waits for the wire any more. */
  get isSettled(): boolean {
    return this.#settle === undefined;
  }

  /** Ends the request because its time is up or its call is over. */
  stop(why: 'timeout' | 'over'): void {
    const message = why === 'timeout' ? 'the service did not answer in time' : 'the call is over';
    const unsent = this.#controller === undefined;
    this.#break({ kind: 'failed', why, message, status: this.#status || undefined, unsent });
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.isSettled) {
      controller.abort(new Error('stopped before it was sent'));
      return;
    }
    if (this.connection === undefined) {
      return;
    }
    this.#reused = this.connection.take();
    this.#bytesBefore = this.connection.bytesRead;
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
      this.#replyHeaders[name] = Array.isArray(value) ? value.join(', ') : value;
    }
    if (status >= 300 && status < 400) {
      this.#malformed('the service redirects, which is never followed', controller);
    } else if (status < 300 && Number(this.#replyHeaders['content-length']) > this.limit) {
      this.#tooLarge(controller);
    }
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#size += chunk.length;
    if (this.#status >= 400 && this.#size > LARGEST_REFUSAL) {
      this.#chunks = [];
      this.#break(this.#answered(undefined), controller);
    } else if (this.#size > this.limit) {
      this.#tooLarge(controller);
    } else {
      this.#chunks.push(chunk);
      this.#bite += chunk.length;
      if (this.#bite >= BITE) {
        this.#swallow(controller);
      }
    }
  }

  #swallow(controller: Dispatcher.DispatchController): void {
    this.#bite = 0;
    controller.pause();
    setImmediate(() => controller.resume());
  }

  onResponseEnd(): void {
    if (this.isSettled) {
      return;
    }
    const [first] = this.#chunks;
    const data = this.#chunks.length === 1 && first !== undefined ? first : Buffer.concat(this.#chunks);
    this.#chunks = [];
    const encoding = this.#replyHeaders['content-encoding'];
    if (encoding === undefined || encoding === 'identity' || data.length === 0) {
      return this.#read(data);
    }
    void unpack(data, encoding, this.limit).then((unpacked) => this.#read(unpacked));
  }

  onResponseError(_controller: Dispatcher.DispatchController, _error: Error): void {
    if (this.isSettled) {
      return;
    }
    const untouched = this.#status === 0 && this.connection?.bytesRead === this.#bytesBefore;
    this.#done({
      kind: 'failed',
      why: 'network',
      message: this.#status === 0 ? 'the service could not be reached' : 'the reply was cut short',
      status: this.#status || undefined,
      stale: this.#reused && untouched,
    });
  }

  #read(data: Buffer | UnreadableBody): void {
    if (this.isSettled) {
      return;
    }
    const isRefusal = this.#status >= 400;
    if (this.#status === 204) {
      return this.#done(this.#answered(undefined));
    }
    if (!isRefusal && !isJsonType(this.#replyHeaders['content-type'])) {
      return this.#malformed('its content type is not JSON');
    }
    const body = data instanceof UnreadableBody ? data : parseJson(data);
    if (!(body instanceof UnreadableBody)) {
      return this.#done(this.#answered(body));
    }
    if (isRefusal) {
      return this.#done(this.#answered(undefined));
    }
    this.#malformed(body.why);
  }

  #answered(body: unknown): Outcome {
    return {
      kind: 'answered',
      status: this.#status,
      headers: this.#replyHeaders,
      body,
      receivedBytes: this.#size,
    };
  }

  #tooLarge(controller: Dispatcher.DispatchController): void {
    this.#malformed(TOO_LARGE, controller);
  }

  #malformed(why: string, controller?: Dispatcher.DispatchController): void {
    const message = `the reply of the service cannot be used: ${why}`;
    this.#break({ kind: 'failed', why: 'malformed', message, status: this.#status }, controller);
  }

  /** Settles and closes the connection, whose rest is not wanted. */
  #break(outcome: Outcome, controller = this.#controller): void {
    if (this.isSettled) {
      return;
    }
    this.#done(outcome);
    if (controller === undefined) {
      this.connection?.abandon();
    } else {
      controller.abort(new Error('the rest of the reply is not wanted'));
    }
  }

  #done(outcome: Outcome): void {
    this.#chunks = [];
    this.#settle?.(outcome);
    this.#settle = undefined;
  }
}
