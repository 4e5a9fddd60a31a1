import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { toHttpException } from '../guards/to-http-exception.js';
import { requiredState } from './required-state.js';

/**
 * The exhibitor the person chose for this event, or their only one. 409 `exhibitor_not_selected` where there are
 * several and none is chosen. Needs {@link ExhibitorGuard}.
 *
 * @example
 * booth(@CurrentExhibitor() exhibitor: Exhibitor) { return exhibitor; }
 */
export const CurrentExhibitor = createParamDecorator((_: unknown, context: ExecutionContext) => {
  const { exhibitors, exhibitor, session } = requiredState(context, 'CurrentExhibitor', 'ExhibitorGuard');
  if (exhibitors === undefined) {
    throw new Error('@CurrentExhibitor() needs ExhibitorGuard on the route');
  }
  if (exhibitor !== undefined) {
    return exhibitor;
  }
  throw toHttpException(
    new ExhibitorError('exhibitor_not_selected', 'choose one of your exhibitors first', {
      tenant: session.tenant.key,
    }),
  );
});
