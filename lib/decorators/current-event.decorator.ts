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
  (_: unknown, context: ExecutionContext) => requiredState(context, 'CurrentEvent', 'ExhibitorGuard').eventId,
);
