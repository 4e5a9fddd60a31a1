import { Injectable, type ExecutionContext } from '@nestjs/common';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import type { HttpContext } from '../http/http-context.js';
import { checkEventId } from '../model/event-id.js';
import type { SessionState } from '../session/identity-reader.service.js';
import { ExhibitorIdentityGuard } from './exhibitor-identity.guard.js';
import type { GuardResults } from './execution-context.js';
import { RUN, SERVICES } from './route-guard.js';

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
  protected override async [RUN](http: HttpContext, context: ExecutionContext): Promise<GuardResults> {
    const { session } = await super[RUN](http, context);
    const named = await this.getEvent(http, context, session);
    const eventId = checkEventId(named ?? (await this.onNoEvent(session)));
    const exhibitors = await this.getExhibitors(session, eventId, http);
    if (exhibitors.length === 0) {
      await this.onNoExhibitor(session, eventId);
    }
    const found = { session, eventId, exhibitors };
    const { exhibitorId, exhibitor } = await this[SERVICES].resolver.choose(http, context, found);
    const exhibitorContext = {
      identity: session.identity,
      tenant: session.tenant.key,
      eventId,
      exhibitors,
      exhibitorId,
    };
    http.request.exhibitors = exhibitors;
    http.request.exhibitorContext = exhibitorContext;
    return { ...found, exhibitor, context: exhibitorContext };
  }

  /** The event of the request: that of `resolveEvent`, else the parameter `eventId`, else the event of the login. */
  protected getEvent(
    http: HttpContext,
    context: ExecutionContext,
    session: SessionState,
  ): string | undefined | Promise<string | undefined> {
    return this[SERVICES].resolver.eventId(http, context, session.identity.eventId);
  }

  /** The exhibitors of the user at the event: a cached lookup. An override may read the request, `http`. */
  protected getExhibitors(
    session: SessionState,
    eventId: string,
    _http?: HttpContext,
  ): readonly unknown[] | Promise<readonly unknown[]> {
    return this[SERVICES].resolver.lookup(session, eventId);
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
