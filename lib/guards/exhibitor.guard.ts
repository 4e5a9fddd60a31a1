import { Injectable, type ExecutionContext } from '@nestjs/common';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import type { HttpContext } from '../http/http-context.js';
import { checkEventId } from '../model/event-id.js';
import type { SessionState } from '../session/identity-reader.service.js';
import { settled, type Steps } from '../time/steps.js';
import { ExhibitorIdentityGuard, FIND } from './exhibitor-identity.guard.js';
import { rememberState, setContext } from './request-memory.js';
import { SERVICES } from './route-guard.js';

/**
 * Finds the exhibitors of the user for the event of the request, and sets `request.exhibitors` and
 * `request.exhibitorContext`. 401 no identity, 400 no event, 403 no exhibitor, 404 unknown tenant, 502/503/504 the service
 * failed.
 *
 * @example
 * @Get('events/:eventId/mine') @UseGuards(ExhibitorGuard)
 * mine(@CurrentExhibitors() exhibitors: Exhibitor[]) { return exhibitors; }
 */
@Injectable()
export class ExhibitorGuard extends ExhibitorIdentityGuard {
  /** @internal */
  protected override *[FIND](http: HttpContext, context: ExecutionContext): Steps<void> {
    const session = yield* this.requireIdentity(http, context);
    const named = yield* settled(this.getEvent(http, context, session));
    const eventId = checkEventId(named ?? (yield* settled(this.onNoEvent(session))));
    const exhibitors = yield* settled(this.getExhibitors(session, eventId, http));
    if (exhibitors.length === 0) {
      yield* settled(this.onNoExhibitor(session, eventId));
    }
    const { resolver } = this[SERVICES];
    const wanted = yield* settled(resolver.namedExhibitor(http, context));
    const { exhibitorId, exhibitor } = resolver.choose(exhibitors, wanted, session, eventId);
    const { identity, tenant } = session;
    http.request.exhibitors = exhibitors;
    setContext(http.request, { identity, tenant: tenant.key, eventId, exhibitors, exhibitorId });
    rememberState(http.request, { session, eventId, exhibitors, exhibitor }, context);
  }

  /** The event of the request: that of `resolveEvent`, else the parameter `eventId`, else the event of the login. */
  protected getEvent(
    http: HttpContext,
    context: ExecutionContext,
    session: SessionState,
  ): string | undefined | Promise<string | undefined> {
    return this[SERVICES].resolver.eventId(http, context, session.identity.eventId);
  }

  /** The exhibitors of the user at the event. With `http`, guards of one request look up once. */
  protected getExhibitors(
    session: SessionState,
    eventId: string,
    http?: HttpContext,
  ): readonly unknown[] | Promise<readonly unknown[]> {
    return this[SERVICES].resolver.lookup(session, eventId, http);
  }

  /** The request names no event. By default throws 400 `event_required`; may answer an event id instead. */
  protected onNoEvent(session: SessionState): string | Promise<string> {
    throw new ExhibitorError('event_required', 'the request names no event', { tenant: session.tenant.key });
  }

  /** The user has no exhibitor at the event. By default throws 403 `no_exhibitor`. If it returns, the handler runs. */
  protected onNoExhibitor(session: SessionState, _eventId: string): void | Promise<void> {
    throw new ExhibitorError('no_exhibitor', 'you have no exhibitor at this event', {
      tenant: session.tenant.key,
    });
  }
}
