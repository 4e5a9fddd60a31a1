import { Observable, type Subscriber } from 'rxjs';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { onAbort } from '../time/deadline.js';
import type { CallOptions } from './call-options.interface.js';

/** A checked call. Its signal aborts when the caller's own signal does, and when the consumer unsubscribes. */
export type Call<Options extends CallOptions> = Omit<Options, 'signal'> & { signal: AbortSignal };

export interface CallScope {
  readonly signal: AbortSignal;
  /** The call is done or its consumer has left: aborts what is still running. */
  readonly close: () => void;
}

export function openScope(callerSignal: AbortSignal | undefined): CallScope {
  const controller = new AbortController();
  const forget = onAbort(callerSignal, () => controller.abort());
  const close = (): void => {
    forget();
    controller.abort();
  };
  return { signal: controller.signal, close };
}

export function abortedCall(): ExhibitorError {
  return new ExhibitorError('aborted', 'the caller aborted the call');
}

/**
 * A cold Observable of a call. Options are checked on subscription, so that a wrong one is an error notification.
 *
 * @param run the call, which passes what it finds to its consumer. It ends when the caller's own signal aborts, and when the
 * consumer unsubscribes
 */
export function fromCall<Options, R>(
  check: () => Options,
  run: (options: Options, consumer: Subscriber<R>) => Promise<void>,
): Observable<R> {
  return new Observable((consumer) => {
    run(check(), consumer).then(
      () => consumer.complete(),
      (error: unknown) => consumer.error(error),
    );
  });
}
