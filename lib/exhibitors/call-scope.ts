import { Observable } from 'rxjs';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { onAbort } from '../time/on-abort.js';
import type { CallOptions } from './call-options.interface.js';

/** A checked call. Its signal aborts when the caller's own signal does, and when the consumer unsubscribes. */
export type Call<Options extends CallOptions> = Omit<Options, 'signal'> & { signal: AbortSignal };

/** Lifetime of a call. */
export interface CallScope {
  readonly signal: AbortSignal;
  /** The consumer unsubscribed: aborts the call unless it is done. May be called again. */
  close(): void;
  /** The call is done: nothing is left to abort. */
  end(): void;
}

export function openScope(callerSignal: AbortSignal | undefined): CallScope {
  const controller = new AbortController();
  const forget = onAbort(callerSignal, () => controller.abort());
  let isDone = false;
  const end = (): void => {
    isDone = true;
    forget();
  };
  const close = (): void => {
    if (!isDone) {
      end();
      controller.abort();
    }
  };
  return { signal: controller.signal, close, end };
}

/** Error of a call that its caller aborted. */
export function abortedCall(): ExhibitorError {
  return new ExhibitorError('aborted', 'the caller aborted the call');
}

/**
 * A cold Observable of one answer. Options are checked on subscription, so that a wrong one is an error notification.
 * Unsubscribing aborts the call.
 *
 * @param run the call. Its signal aborts when the caller's own signal does, and when the consumer unsubscribes
 */
export function fromCall<Options extends CallOptions, R>(
  check: () => Options,
  run: (options: Options, signal: AbortSignal) => Promise<R>,
): Observable<R> {
  return new Observable((subscriber) => {
    const options = check();
    const scope = openScope(options.signal);
    subscriber.add(scope.close);
    const answer = (value: R): void => {
      scope.end();
      subscriber.next(value);
      subscriber.complete();
    };
    const fail = (error: unknown): void => {
      scope.end();
      subscriber.error(error);
    };
    run(options, scope.signal).then(answer, fail);
  });
}
