import type { IncomingHttpHeaders } from 'node:http';
import type { Dispatcher } from 'undici';
import type { Failed, Outcome } from '../outcome.js';
import { BodyBlocks } from './body-blocks.js';
import type { ResponseReceiver } from './own-client.js';
import { ReadingPace } from './reading-pace.js';
import { parseBody, unpack, UnreadableBody, type ExpectedReply } from './reply-body.js';
import { LARGE_BODY, LARGEST_REFUSAL, MOST_INTERIM, TOO_LARGE } from './reply-limits.js';
import { errorCode, isStaleConnection } from './stale-connection.js';
import type { UnfinishedReplies, UnfinishedReply } from './unfinished-replies.js';

/**
 * Receives the response to one request from undici, up to the end of its body. Settles once, with an {@link Outcome}; later
 * events are ignored.
 *
 * In order: request start, response start (before it, 1xx responses), data, end, then its turn to be decompressed and parsed. Each
 * step may settle it early: an error of the connection, a limit that is exceeded, the time limit.
 */
export class ResponseHandler implements ResponseReceiver, UnfinishedReply {
  isOnNewConnection = false;
  readonly outcome: Promise<Outcome>;
  readonly payer: string;
  readonly limit: number;
  /** Of the body, and of its decompressed form. */
  bytes = 0;

  #settle: ((outcome: Outcome) => void) | undefined;
  #controller: Dispatcher.DispatchController | undefined;
  #status = 0;
  #headers: Record<string, string | undefined> = {};
  readonly #body = new BodyBlocks();
  readonly #pace = new ReadingPace();
  #contentLength = Number.NaN;
  #interim = 0;

  constructor(
    private readonly expected: ExpectedReply,
    private readonly replies: UnfinishedReplies,
  ) {
    this.payer = expected.payer;
    this.limit = expected.replyLimit;
    this.outcome = new Promise((resolve) => {
      this.#settle = resolve;
    });
  }

  get isSettled(): boolean {
    return this.#settle === undefined;
  }

  /** Aborts the request: the attempt took too long (`timeout`), or the whole call is over (`over`). */
  stop(why: 'timeout' | 'over'): Failed {
    const message = why === 'timeout' ? 'the service did not answer in time' : 'the call is over';
    const status = this.#status || undefined;
    const failed: Failed = { kind: 'failed', why, message, status, phase: this.#phase };
    this.#abort(failed);
    return failed;
  }

  fail(message: string): void {
    this.#done({ kind: 'failed', why: 'network', message });
  }

  giveUp(message: string): void {
    this.#abort({ kind: 'failed', why: 'memory', message, status: this.#status });
  }

  get #phase(): 'connecting' | 'sent' {
    return this.#controller === undefined ? 'connecting' : 'sent';
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.isSettled) {
      controller.abort(new Error('the request was stopped before it was sent'));
    }
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
  ): void {
    if (status < 200) {
      if (++this.#interim > MOST_INTERIM) {
        this.#malformed('it has too many interim responses');
      }
      return;
    }
    this.#status = status;
    for (const name in headers) {
      const value = headers[name];
      this.#headers[name] = Array.isArray(value) ? value.join(', ') : value;
    }
    this.#contentLength = Number(this.#headers['content-length']);
    if (status >= 300 && status < 400) {
      this.#malformed('the service redirects, which is never followed');
    } else if (status < 300 && this.#contentLength > this.limit) {
      this.#malformed(TOO_LARGE);
    }
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    // A RetryAgent of the host goes on with another request.
    this.#controller = controller;
    const size = this.#body.size + chunk.length;
    if (this.#status >= 400 && size > LARGEST_REFUSAL) {
      this.#abort(this.#answered(undefined));
      return;
    }
    if (size > this.limit) {
      this.#malformed(TOO_LARGE);
      return;
    }
    if (!this.#hold(chunk.length)) {
      return;
    }
    this.#body.add(chunk, chunk.length === this.#contentLength);
    this.#pace.count(chunk.length, controller);
  }

  onResponseEnd(): void {
    if (this.isSettled) {
      return;
    }
    const data = this.#body.join();
    const encoding = this.#headers['content-encoding'];
    if (encoding === undefined || encoding === 'identity' || data.length === 0) {
      this.replies.turns.take(() => this.#read(data));
    } else {
      const hold = (bytes: number): boolean => this.#hold(bytes);
      const work = (): ReturnType<typeof unpack> => unpack(data, encoding, this.limit, hold);
      void this.replies.decompressions.after(this.payer, work).then((unpacked) => this.#read(unpacked));
    }
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    const isSent = this.#phase === 'sent';
    const hasReply = this.#status !== 0;
    this.#done({
      kind: 'failed',
      why: 'network',
      message: hasReply ? 'the reply was cut short' : 'the service could not be reached',
      phase: this.#phase,
      errorCode: isSent ? undefined : errorCode(error),
      status: this.#status || undefined,
      stale: isSent && isStaleConnection(error, this, hasReply),
    });
  }

  /** Counts further bytes. Answers false where the reply has ended, which they may cause. */
  #hold(bytes: number): boolean {
    if (!this.isSettled) {
      this.bytes += bytes;
      this.replies.hold(this, bytes);
    }
    return !this.isSettled;
  }

  /** The body is complete. */
  #read(data: Buffer | UnreadableBody): void {
    if (this.isSettled) {
      return;
    }
    const body = data instanceof UnreadableBody ? data : this.#parse(data);
    if (body instanceof UnreadableBody && this.#status < 400) {
      this.#malformed(body.why);
      return;
    }
    const done = (): void => this.#done(this.#answered(body instanceof UnreadableBody ? undefined : body));
    // What follows a large body takes as long as its parsing and gets a turn of the event loop of its own.
    if (data instanceof Buffer && data.length > LARGE_BODY) {
      setImmediate(done);
    } else {
      done();
    }
  }

  #parse(data: Buffer): unknown {
    return parseBody(data, this.#status, this.#headers['content-type'], this.expected);
  }

  #answered(body: unknown): Outcome {
    return { kind: 'answered', status: this.#status, headers: this.#headers, body };
  }

  #malformed(problem: string): void {
    const message = `the reply of the service cannot be used: ${problem}`;
    const isTooLarge = problem === TOO_LARGE;
    this.#abort({ kind: 'failed', why: 'malformed', message, isTooLarge, status: this.#status });
  }

  /** Settles, and closes the connection instead of reading the rest of the reply. */
  #abort(outcome: Outcome): void {
    if (this.isSettled) {
      return;
    }
    this.#done(outcome);
    this.#controller?.abort(new Error('the rest of the reply is not needed'));
  }

  #done(outcome: Outcome): void {
    this.#body.clear();
    this.replies.release(this);
    this.#settle?.(outcome);
    this.#settle = undefined;
  }
}
