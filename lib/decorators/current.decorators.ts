import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { stateIn, type RequestState } from '../guards/request-state.js';
import { toHttpException } from '../guards/to-http-exception.js';

/**
 * The exhibitors of the user at the event of the request. Needs {@link ExhibitorGuard}.
 *
 * @example
 * mine(@CurrentExhibitors() exhibitors: Exhibitor[]) { return exhibitors; }
 */
export const CurrentExhibitors = createParamDecorator((_: unknown, context: ExecutionContext) => {
  const { exhibitors } = requireState(context, 'CurrentExhibitors', 'ExhibitorGuard');
  return exhibitors ?? missingGuard('CurrentExhibitors', 'ExhibitorGuard');
});

/**
 * The selected exhibitor of the user at this event, or the only one. 409 `exhibitor_not_selected` where there are several and
 * none is selected. Needs {@link ExhibitorGuard}.
 *
 * @example
 * booth(@CurrentExhibitor() exhibitor: Exhibitor) { return exhibitor; }
 */
export const CurrentExhibitor = createParamDecorator((_: unknown, context: ExecutionContext) => {
  const state = requireState(context, 'CurrentExhibitor', 'ExhibitorGuard');
  if (state.exhibitors === undefined) {
    return missingGuard('CurrentExhibitor', 'ExhibitorGuard');
  }
  if (state.exhibitor !== undefined) {
    return state.exhibitor;
  }
  const tenant = state.session.tenant.key;
  throw toHttpException(
    new ExhibitorError('exhibitor_not_selected', 'select one of your exhibitors first', { tenant }),
  );
});

/**
 * The user who is logged in, an {@link ExhibitorIdentity}. Needs {@link ExhibitorIdentityGuard}, {@link ExhibitorGuard} or, at
 * the callback, {@link ExhibitorCallbackGuard}.
 *
 * @example
 * profile(@CurrentIdentity() identity: ExhibitorIdentity) { return identity.claims; }
 */
export const CurrentIdentity = createParamDecorator(
  (_: unknown, context: ExecutionContext) =>
    requireState(context, 'CurrentIdentity', 'ExhibitorIdentityGuard').session.identity,
);

/**
 * Id of the event of the request; at the callback, of the login, where it may be `undefined`. Needs {@link ExhibitorGuard} or
 * {@link ExhibitorCallbackGuard}.
 *
 * @example
 * mine(@CurrentEvent() eventId: string) { return eventId; }
 */
export const CurrentEvent = createParamDecorator(
  (_: unknown, context: ExecutionContext): string | undefined => {
    const state = requireState(context, 'CurrentEvent', 'ExhibitorGuard');
    // ExhibitorIdentityGuard sets no event; the callback sets one that may be undefined.
    return 'eventId' in state ? state.eventId : missingGuard('CurrentEvent', 'ExhibitorGuard');
  },
);

/**
 * Key of the tenant of the user. Needs {@link ExhibitorIdentityGuard} or another guard of this package.
 *
 * @example
 * page(@CurrentTenant() tenant: string) { return this.exhibitors.list(eventId, { tenant }); }
 */
export const CurrentTenant = createParamDecorator(
  (_: unknown, context: ExecutionContext) =>
    requireState(context, 'CurrentTenant', 'ExhibitorIdentityGuard').session.tenant.key,
);

function requireState(context: ExecutionContext, decorator: string, guard: string): RequestState {
  return stateIn(context, `@${decorator}()`) ?? missingGuard(decorator, guard);
}

function missingGuard(decorator: string, guard: string): never {
  throw new Error(`@${decorator}() needs ${guard} on the route`);
}
