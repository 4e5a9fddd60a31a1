import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import { defaultExhibitorId } from '../exhibitors/exhibitor-id.js';
import {
  FIND_EVENT,
  markCurrentExhibitor,
  requestPairOf,
  resultsIn,
  type Results,
} from './execution-context.js';
import { markRefusal, notSelected } from './refusals.js';
import { toHttpException } from './to-http-exception.js';
import type { ExhibitorContext } from '../model/exhibitor-request.interface.js';

/**
 * The exhibitors of the user at the event of the request; `[]` for nobody ({@link AllowAnonymous}). Needs {@link ExhibitorGuard}.
 *
 * @example
 * mine(@CurrentExhibitors() exhibitors: Exhibitor[]) { return exhibitors; }
 */
export const CurrentExhibitors = createParamDecorator((_: unknown, context: ExecutionContext) =>
  resultOf('exhibitors', context, 'CurrentExhibitors', 'ExhibitorGuard'),
);

const currentExhibitor = createParamDecorator((_: unknown, context: ExecutionContext) => {
  const exhibitors = resultOf('exhibitors', context, 'CurrentExhibitor', 'ExhibitorGuard') ?? [];
  const results = resultsOf(context, 'CurrentExhibitor');
  if ('exhibitor' in results) {
    return results.exhibitor;
  }
  const current = exhibitorOfHost(exhibitors, results.exhibitorId);
  if (current === undefined) {
    throw toHttpException(notSelected(results.tenant));
  }
  return current;
});

/**
 * A guard of the host may have set the id alone, or neither where there is only one. Our guard leaves it open for none and for several
 * only: of these, this finds none.
 */
function exhibitorOfHost(exhibitors: readonly unknown[], id: string | undefined): unknown {
  if (id === undefined) {
    return exhibitors.length === 1 ? exhibitors[0] : undefined;
  }
  return exhibitors.find((one) => defaultExhibitorId(one) === id);
}

/**
 * The selected exhibitor of the user at this event, or the only one. 409 `exhibitor_not_selected` where there are several and none is
 * selected, unless `onNotSelected` of the guard decides otherwise, and where there is none and `onNoExhibitor` returned. `undefined` where
 * `onNotSelected` returned, and where the route has {@link AllowAnonymous}. Needs {@link ExhibitorGuard}. Where a guard of the host has
 * set `request.exhibitorContext`, it is the `exhibitor` of that context, else the record among its `exhibitors` whose `id` (`exhibitorId`
 * for a record without `id`) is its `exhibitorId`.
 *
 * @example
 * booth(@CurrentExhibitor() exhibitor: Exhibitor) { return exhibitor; }
 */
export const CurrentExhibitor: typeof currentExhibitor =
  (...given) =>
  (target, handler, index) => {
    if (handler !== undefined) {
      markCurrentExhibitor(target, handler);
    }
    currentExhibitor(...given)(target, handler, index);
  };

/**
 * The user who is logged in, an {@link ExhibitorIdentity}; `undefined` for nobody ({@link AllowAnonymous}). Needs
 * {@link ExhibitorIdentityGuard}, {@link ExhibitorGuard} or, at the callback, {@link ExhibitorCallbackGuard}.
 *
 * @example
 * profile(@CurrentIdentity() identity: ExhibitorIdentity) { return identity.claims; }
 */
export const CurrentIdentity = createParamDecorator((_: unknown, context: ExecutionContext) =>
  resultOf('identity', context, 'CurrentIdentity', 'ExhibitorIdentityGuard'),
);

/**
 * Id of the event of the request; at the callback, of the login. `undefined` where there is none: at the callback, and with
 * {@link AllowAnonymous}; elsewhere 400 `event_required`. The event of the login counts for GET and HEAD only. Needs
 * {@link ExhibitorGuard}, {@link ExhibitorIdentityGuard} or {@link ExhibitorCallbackGuard}.
 *
 * @example
 * mine(@CurrentEvent() eventId: string) { return eventId; }
 */
export const CurrentEvent = createParamDecorator((_: unknown, context: ExecutionContext) => {
  const results = resultsOf(context, 'CurrentEvent');
  if (!('eventId' in results) && results[FIND_EVENT] !== undefined) {
    return results[FIND_EVENT]();
  }
  return resultOf('eventId', context, 'CurrentEvent', 'ExhibitorGuard');
});

/**
 * Key of the tenant of the user; for nobody ({@link AllowAnonymous}) that which the request names, or `undefined`. Needs
 * {@link ExhibitorIdentityGuard}, {@link ExhibitorGuard} or {@link ExhibitorCallbackGuard}.
 *
 * @example
 * page(@CurrentTenant() tenant: string) { return this.exhibitors.list(eventId, { tenant }); }
 */
export const CurrentTenant = createParamDecorator((_: unknown, context: ExecutionContext) =>
  resultOf('tenant', context, 'CurrentTenant', 'ExhibitorIdentityGuard'),
);

/** What a guard has found, see {@link Results}. */
function resultOf<K extends keyof ExhibitorContext>(
  name: K,
  context: ExecutionContext,
  decorator: string,
  guard: string,
): ExhibitorContext[K] | undefined {
  const results: Partial<ExhibitorContext> = resultsOf(context, decorator);
  if (name in results) {
    return results[name];
  }
  throw markRefusal(new Error(`@${decorator}() needs ${guard} on the route`));
}

function resultsOf(context: ExecutionContext, decorator: string): Results {
  return resultsIn(context, requestPairOf(context, `@${decorator}()`).request) ?? {};
}
