import { Injectable, type ExecutionContext } from '@nestjs/common';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import type { HttpContext } from '../http/http-context.js';
import { checkEventId } from '../model/path-parameters.js';
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
    const results = await super[RUN](http, context);
    const { session, allowsAnonymous } = results;
    const named = await this.getEvent(http, context, session);
    if (session === undefined || (named === undefined && allowsAnonymous === true)) {
      http.request.exhibitors = [];
      return { ...results, eventId: named === undefined ? named : checkEventId(named), exhibitors: [] };
    }
    const eventId = checkEventId(named ?? (await this.onNoEvent(session)));
    const exhibitors = await this.getExhibitors(session, eventId, http);
    if (exhibitors.length === 0 && allowsAnonymous !== true) {
      await this.onNoExhibitor(session, eventId);
    }
    const found = { session, eventId, exhibitors };
    const chosen = await this[SERVICES].resolver.choose(http, context, found);
    if (chosen === undefined && allowsAnonymous !== true) {
      throw new ExhibitorError('no_exhibitor', 'this exhibitor is not one of yours at this event', {
        tenant: session.tenant.key,
      });
    }
    const { exhibitorId, exhibitor } = chosen ?? {};
    const exhibitorContext = {
      identity: session.identity,
      tenant: session.tenant.key,
      eventId,
      exhibitors,
      exhibitorId,
    };
    http.request.exhibitors = exhibitors;
    http.request.exhibitorContext = exhibitorContext;
    return { eventId, exhibitors, exhibitor, context: exhibitorContext, ...results };
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

  /**
   * The user has no exhibitor at the event. By default throws 403 `no_exhibitor`. If it returns, the handler runs, unless the request
   * names an exhibitor.
   */
  protected onNoExhibitor(session: SessionState, _eventId: string): void | Promise<void> {
    throw new ExhibitorError('no_exhibitor', 'you have no exhibitor at this event', {
      tenant: session.tenant.key,
    });
  }
}
