import type { Dispatcher } from 'undici';
import type { Clock } from '../../call/clock.js';
import type { Call } from '../../call/call.js';
import { isLate } from '../../call/partner.js';
import { failed, type Answered, type Failed, type Outcome } from '../outcome.js';
import { Connections } from './connections.js';
import { NetworkErrors, proxyRefused } from './network-errors.js';
import { drop, parseBody, readBody, ReplyTurns, TOO_LARGE, unpack, UnreadableBody } from './reply-body.js';

/** One request, without retries. */
export interface OutgoingRequest {
  /** Absolute, with an encoded path and query. */
  url: string;
  /** Of the URL. */
  origin: string;
  method: 'GET' | 'POST';
  headers: Readonly<Record<string, string | string[]>>;
  body: string | undefined;
  /** Time limit in ms to the end of the reply; `Infinity` for that of the call. */
  timeout: number;
  /** Time that a request has, in ms: where the deadline ends a request that {@link isLate}, the partner is silent. */
  patience: number;
  /** Largest accepted reply in bytes, compressed and decompressed. */
  replyLimit: number;
  /** Sends on a new connection, which is closed afterwards. Through a dispatcher of the host, the connection is its choice. */
  onNewConnection: boolean;
  /** Dispatcher of the host; our own connections if none. */
  dispatcher: Dispatcher | undefined;
}

/** A request under way. */
interface SentRequest {
  readonly call: Call;
  /** The part of the call that this request takes. */
  readonly attempt: Call;
  /** {@link Clock.now} */
  readonly sentAt: number;
  /** Once the head of its reply has arrived. */
  status: number | undefined;
  /** Its reply was read to the end. */
  isWhole: boolean;
  /** Once the head of an error status has arrived. Its body may be slow or broken. */
  refusal: Answered | undefined;
}

/** Sends with undici and reads the reply. Our keep-alive connections are shared by all tenants without a dispatcher of their own. */
export class HttpClient {
  readonly #connections: Connections;
  readonly #turns = new ReplyTurns();
  readonly #errors = new NetworkErrors();

  /** @param maxConnections to one origin */
  constructor(
    private readonly clock: Clock,
    maxConnections: number,
  ) {
    this.#connections = new Connections(clock, maxConnections);
  }

  /**
   * The outcome of a request; never rejects. Counts the request in {@link Call.sent}, unless the call is over.
   *
   * undici does not see an abort while it waits for a connection: the first of reply, time limit and end of the call is the
   * outcome, and what comes later is ignored.
   */
  send(request: OutgoingRequest, call: Call): Promise<Outcome> {
    if (call.isOver) {
      return Promise.resolve(ended());
    }
    const sentAt = this.clock.now();
    call.sent += 1;
    call.partner.wasAsked(sentAt);
    const attempt = call.part(request.timeout);
    const sent: SentRequest = {
      call,
      attempt,
      sentAt,
      status: undefined,
      isWhole: false,
      refusal: undefined,
    };
    return new Promise((resolve) => {
      attempt.whenOver(() => resolve(this.#unfinished(request, sent)));
      this.#exchange(request, sent).then(resolve, () => resolve(unreadable(sent)));
    });
  }

  /** Closes our connections; the dispatchers of hosts stay open. */
  close(): Promise<void> {
    this.#errors.close();
    return this.#connections.close();
  }

  /** The outcome where the attempt is over before its reply: with the call, or because its own time is up. */
  #unfinished({ patience }: OutgoingRequest, sent: SentRequest): Outcome {
    const { call, refusal, sentAt } = sent;
    if (!call.isOver) {
      return refusal ?? late(sent);
    }
    const isSilent = call.isTimeUp && !call.isHeldUp && isLate(this.clock.now() - sentAt, patience);
    return ended(sent, isSilent);
  }

  async #exchange(request: OutgoingRequest, sent: SentRequest): Promise<Outcome> {
    const { origin, dispatcher, onNewConnection } = request;
    if (dispatcher !== undefined) {
      return this.#receive(request, dispatcher, sent);
    }
    const connection = onNewConnection ? this.#connections.open(origin) : this.#connections.take(origin);
    sent.attempt.whenOver(() => void connection.destroy());
    const outcome = await this.#receive(request, connection.client, sent);
    this.#connections.leave(connection, sent.isWhole && !onNewConnection);
    return outcome;
  }

  async #receive(request: OutgoingRequest, by: Dispatcher, sent: SentRequest): Promise<Outcome> {
    const { url, origin, method, headers, body, onNewConnection, dispatcher } = request;
    // As it is: `new URL` would normalize it.
    const path = url.slice(origin.length) || '/';
    try {
      const options = { origin, path, method, headers, body, signal: sent.attempt, reset: onNewConnection };
      // The deadline limits headers and body.
      const send = () => by.request({ ...options, headersTimeout: 0, bodyTimeout: 0 });
      const received = await (dispatcher === undefined ? send() : this.#errors.watched(send));
      if (sent.attempt.isOver) {
        drop(received.body);
        return ended(sent);
      }
      if (received.statusCode === 407 && dispatcher !== undefined) {
        drop(received.body);
        return proxyRefused('407', sent.sentAt);
      }
      sent.status = received.statusCode;
      return await this.#read(received, request, sent);
    } catch (error) {
      return sent.refusal ?? this.#errors.failure(error, sent, request);
    } finally {
      sent.attempt.clear();
    }
  }

  async #read(
    { statusCode: status, headers: received, body }: Dispatcher.ResponseData,
    { replyLimit }: OutgoingRequest,
    sent: SentRequest,
  ): Promise<Outcome> {
    const { call, attempt, sentAt } = sent;
    if (status >= 300 && status < 400) {
      drop(body);
      return malformed('the service redirects, which is never followed', status, sentAt);
    }
    const headers = joined(received);
    const reply: Answered = {
      kind: 'answered',
      code: codeOfStatus(status),
      status,
      headers,
      body: undefined,
      sentAt,
    };
    if (status === 204) {
      // Some servers send a body against RFC 9110 §15.3.5: undici takes it for a broken reply to no request. So the connection ends.
      drop(body);
      return reply;
    }
    if (status >= 400) {
      sent.refusal = reply;
      // The body of a refusal says no more than why.
      attempt.setTimeLeft(Math.min(1_000, call.remaining() / 2, attempt.remaining()));
    }
    try {
      const data = await readBody(body, replyLimit, Number(headers['content-length']));
      sent.isWhole = true;
      const encoding = headers['content-encoding'];
      const unpacked = encoding === undefined ? data : await unpack(data, encoding, replyLimit);
      await new Promise<void>((resolve) => this.#turns.take(resolve));
      reply.body = parseBody(unpacked, status, headers['content-type']);
      return reply;
    } catch (error) {
      if (!(error instanceof UnreadableBody)) {
        throw error;
      }
      return sent.refusal ?? malformed(error.message, status, sentAt);
    }
  }
}

function joined(received: Dispatcher.ResponseData['headers']): Record<string, string | undefined> {
  const headers: Record<string, string | undefined> = {};
  for (const name in received) {
    const value = received[name];
    headers[name] = Array.isArray(value) ? value.join(', ') : value;
  }
  return headers;
}

/** Error code of a reply when there is no further attempt. */
function codeOfStatus(status: number): Answered['code'] {
  if (status === 429) {
    return 'rate_limited';
  }
  return status === 408 || status >= 500 ? 'service_unavailable' : undefined;
}

function malformed(problem: string, status: number, sentAt: number): Failed {
  const message = `the reply of the service cannot be used: ${problem}`;
  const isTooLarge = problem === TOO_LARGE;
  return failed(message, { blame: 'partner', code: 'malformed_response', isTooLarge, status, sentAt });
}

/**
 * The call is over.
 *
 * @param sent `undefined` where it was over before
 */
function ended({ status, sentAt }: Partial<SentRequest> = {}, isSilent = false): Failed {
  const noReply = isSilent ? 'unanswered' : undefined;
  return failed('the call is over', { blame: 'unknown', status, sentAt, noReply });
}

/** What a dispatcher of the host threw cannot be read. */
function unreadable({ status, sentAt }: SentRequest): Failed {
  const message = 'the dispatcher of the host failed';
  return failed(message, { blame: 'dispatcher', cause: 'network', why: 'unknown error', status, sentAt });
}

/** The attempt took too long. */
function late({ attempt, status, sentAt }: SentRequest): Failed {
  const facts = { repeat: 'later', cause: 'timeout', status, sentAt } as const;
  return attempt.isHeldUp
    ? failed('no reply was read in time: this process was blocked', { ...facts, blame: 'us' })
    : failed('the service did not answer in time', { ...facts, blame: 'partner', noReply: 'unanswered' });
}

/** Origin of an absolute URL. */
export function originOf(url: string): string {
  const slash = url.indexOf('/', url.indexOf('//') + 2);
  return slash === -1 ? url : url.slice(0, slash);
}
