import { Observable } from 'rxjs';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { onAbort } from '../time/on-abort.js';
import type { CallOptions } from './call-options.interface.js';

/** A call that ends when its caller's signal aborts or its consumer leaves, whichever is first. */
export interface CallScope {
  readonly signal: AbortSignal;
  /** The consumer leaves, or the call is done. May be called again. */
  close(): void;
  /** The call is done: nothing is left to abort, and an abort error would be made for nothing. */
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
    if (isDone) {
      return;
    }
    end();
    controller.abort();
  };
  return { signal: controller.signal, close, end };
}

/** The error of a call whose caller aborted it. */
export function abortedCall(): ExhibitorError {
  return new ExhibitorError('aborted', 'the caller aborted the call');
}

/**
 * A cold Observable of one answer. The options are checked when it is subscribed to, so that a wrong one arrives as an
 * error notification; unsubscribing aborts the call.
 */
export function fromCall<C extends CallOptions, R>(
  check: () => C,
  run: (call: C, signal: AbortSignal) => Promise<R>,
): Observable<R> {
  return new Observable((subscriber) => {
    const call = check();
    const scope = openScope(call.signal);
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
    run(call, scope.signal).then(answer, fail);
  });
}
