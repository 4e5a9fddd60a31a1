import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import { requiredState } from './required-state.js';

/**
 * The exhibitors the person stands for at this event. Needs {@link ExhibitorGuard}.
 *
 * @example
 * mine(@CurrentExhibitors() exhibitors: Exhibitor[]) { return exhibitors; }
 */
export const CurrentExhibitors = createParamDecorator((_: unknown, context: ExecutionContext) => {
  const { exhibitors } = requiredState(context, 'CurrentExhibitors', 'ExhibitorGuard');
  if (exhibitors !== undefined) {
    return exhibitors;
  }
  throw new Error('@CurrentExhibitors() needs ExhibitorGuard on the route');
});
