import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import { requiredState } from './required-state.js';

/**
 * Id of the event the request is about; at the callback, of the event the login was started for. Needs
 * {@link ExhibitorGuard} or {@link ExhibitorCallbackGuard}.
 *
 * @example
 * mine(@CurrentEvent() eventId: string) { return eventId; }
 */
export const CurrentEvent = createParamDecorator(
  (_: unknown, context: ExecutionContext): string | undefined => {
    const state = requiredState(context, 'CurrentEvent', 'ExhibitorGuard');
    // A login without an event has none at the callback; ExhibitorIdentityGuard looks for none.
    if ('eventId' in state) {
      return state.eventId;
    }
    throw new Error('@CurrentEvent() needs ExhibitorGuard on the route');
  },
);
