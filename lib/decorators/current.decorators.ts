import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { defaultExhibitorId } from '../exhibitors/exhibitor-id.js';
import { hostContextIn, resultsIn } from '../guards/execution-context.js';
import { toHttpException } from '../guards/to-http-exception.js';
import type { ExhibitorContext } from '../model/exhibitor-request.interface.js';

/** Results of the guard of a route: of a guard of the host, or of our own. */
interface Results extends Partial<Omit<ExhibitorContext, 'eventId'>> {
  eventId?: string | undefined;
  /** The selected or the only exhibitor. */
  exhibitor?: unknown;
  allowsAnonymous?: boolean;
}

/**
 * The exhibitors of the user at the event of the request; `[]` for nobody ({@link AllowAnonymous}). Needs {@link ExhibitorGuard}, or a guard of the host that sets
 * `request.exhibitorContext`.
 *
 * @example
 * mine(@CurrentExhibitors() exhibitors: Exhibitor[]) { return exhibitors; }
 */
export const CurrentExhibitors = createParamDecorator((_: unknown, context: ExecutionContext) =>
  resultOf('exhibitors', context, 'CurrentExhibitors', 'ExhibitorGuard'),
);

/**
 * The selected exhibitor of the user at this event, or the only one. 409 `exhibitor_not_selected` where there are several and
 * none is selected; `undefined` where the route has {@link AllowAnonymous}. Needs {@link ExhibitorGuard}, or a guard of the host that sets `request.exhibitorContext`; then
 * `exhibitorId` selects the record with this `id`, else `exhibitorId`.
 *
 * @example
 * booth(@CurrentExhibitor() exhibitor: Exhibitor) { return exhibitor; }
 */
export const CurrentExhibitor = createParamDecorator((_: unknown, context: ExecutionContext) => {
  const results = guardResults(context, 'CurrentExhibitor', 'ExhibitorGuard');
  const { exhibitorId, tenant, allowsAnonymous } = results;
  const exhibitors = results.exhibitors ?? missingGuard('CurrentExhibitor', 'ExhibitorGuard');
  const current = 'exhibitor' in results ? results.exhibitor : exhibitorIn(exhibitors, exhibitorId);
  if (current !== undefined || allowsAnonymous === true) {
    return current;
  }
  throw toHttpException(
    new ExhibitorError('exhibitor_not_selected', 'select one of your exhibitors first', { tenant }),
  );
});

/**
 * The user who is logged in, an {@link ExhibitorIdentity}; `undefined` for nobody ({@link AllowAnonymous}). Needs {@link ExhibitorIdentityGuard}, {@link ExhibitorGuard} or, at
 * the callback, {@link ExhibitorCallbackGuard}; or a guard of the host that sets `request.exhibitorContext`.
 *
 * @example
 * profile(@CurrentIdentity() identity: ExhibitorIdentity) { return identity.claims; }
 */
export const CurrentIdentity = createParamDecorator((_: unknown, context: ExecutionContext) =>
  resultOf('identity', context, 'CurrentIdentity', 'ExhibitorIdentityGuard'),
);

/**
 * Id of the event of the request; at the callback, of the login. `undefined` where there is none: at the callback, and with
 * {@link AllowAnonymous}. Needs {@link ExhibitorGuard} or
 * {@link ExhibitorCallbackGuard}, or a guard of the host that sets `request.exhibitorContext`.
 *
 * @example
 * mine(@CurrentEvent() eventId: string) { return eventId; }
 */
export const CurrentEvent = createParamDecorator(
  (_: unknown, context: ExecutionContext): string | undefined => {
    const results = guardResults(context, 'CurrentEvent', 'ExhibitorGuard');
    // ExhibitorIdentityGuard sets no event; the callback sets one that may be undefined.
    return 'eventId' in results ? results.eventId : missingGuard('CurrentEvent', 'ExhibitorGuard');
  },
);

/**
 * Key of the tenant of the user; for nobody ({@link AllowAnonymous}) that which the request names, or `undefined`. Needs {@link ExhibitorIdentityGuard} or another guard of this package, or a guard of the host
 * that sets `request.exhibitorContext`.
 *
 * @example
 * page(@CurrentTenant() tenant: string) { return this.exhibitors.list(eventId, { tenant }); }
 */
export const CurrentTenant = createParamDecorator((_: unknown, context: ExecutionContext) =>
  resultOf('tenant', context, 'CurrentTenant', 'ExhibitorIdentityGuard'),
);

function resultOf<K extends keyof ExhibitorContext>(
  name: K,
  context: ExecutionContext,
  decorator: string,
  guard: string,
): Results[K] {
  const results = guardResults(context, decorator, guard);
  const mayLack = results.allowsAnonymous === true && name in results;
  return results[name] ?? (mayLack ? undefined : missingGuard(decorator, guard));
}

function guardResults(context: ExecutionContext, decorator: string, guard: string): Results {
  const user = `@${decorator}()`;
  const given = hostContextIn(context, user);
  if (given !== undefined) {
    return given;
  }
  const results = resultsIn(context, user);
  if (results === undefined) {
    return missingGuard(decorator, guard);
  }
  const { session, ...found } = results;
  return session === undefined
    ? { exhibitors: [], ...found, identity: undefined }
    : { ...found, identity: session.identity };
}

/** The exhibitor with the id that a guard of the host has set, or the only one. */
function exhibitorIn(exhibitors: readonly unknown[], exhibitorId: string | undefined): unknown {
  if (exhibitors.length === 1 && exhibitorId === undefined) {
    return exhibitors[0];
  }
  return exhibitors.find((one) => exhibitorId !== undefined && defaultExhibitorId(one) === exhibitorId);
}

function missingGuard(decorator: string, guard: string): never {
  throw new Error(`@${decorator}() needs ${guard} on the route`);
}
