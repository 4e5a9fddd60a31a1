import { Injectable, type ExecutionContext } from '@nestjs/common';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { lookupOptions } from '../exhibitors/call-options.schema.js';
import type { HttpContext } from '../browser/http-context.js';
import { checkEventId } from '../model/path-parameters.js';
import type { SessionState } from '../login/request-user.js';
import { ExhibitorIdentityGuard, noEvent } from './exhibitor-identity.guard.js';
import { keepResults } from './execution-context.js';
import { RouteGuard, textOf } from './route-guard.js';

/**
 * Finds the exhibitors of the user for the event of the request, and sets `request.exhibitors` and
 * `request.exhibitorContext`. 401 no identity, 400 no event or an invalid one, 403 no exhibitor, 404 unknown tenant, 502/503/504 the
 * service failed.
 *
 * @example
 * @Get('events/:eventId/mine') @UseGuards(ExhibitorGuard)
 * mine(@CurrentExhibitors() exhibitors: Exhibitor[]) { return exhibitors; }
 */
@Injectable()
export class ExhibitorGuard extends ExhibitorIdentityGuard {
  /** Runs the steps of this guard; called by Nest. */
  override canActivate(context: ExecutionContext): boolean | Promise<boolean> {
    return ExhibitorIdentityGuard.enter(this, context, (http) => this.#decide(http, context));
  }

  async #decide(http: HttpContext, context: ExecutionContext): Promise<void> {
    const { session, results, isPublic } = await ExhibitorIdentityGuard.identify(this, http, context);
    const namedEvent = await this.getEvent(http, context, session);
    if (session === undefined || (isPublic && namedEvent === undefined)) {
      // Without a session the route is public: on others `identify` has thrown 401.
      results.eventId = namedEvent === undefined ? undefined : checkEventId(namedEvent);
      results.exhibitors = [];
      results.exhibitor = undefined;
      keepResults(context, http.request, results);
      return;
    }
    const eventId = checkEventId(namedEvent ?? (await this.onNoEvent(session)));
    const exhibitors = await this.getExhibitors(session, eventId, http);
    if (exhibitors.length === 0 && !isPublic) {
      await this.onNoExhibitor(session, eventId);
    }
    const services = RouteGuard.servicesOf(this);
    const named = await this.#namedExhibitor(http, context);
    const exhibitor =
      named === undefined && exhibitors.length === 1
        ? exhibitors[0]
        : services.ownOf(exhibitors, named ?? services.selections.read(http, session, eventId));
    if (exhibitor === undefined && named !== undefined && !isPublic) {
      throw new ExhibitorError('no_exhibitor', 'this exhibitor is not one of yours at this event', {
        tenant: session.tenant.key,
      });
    }
    results.eventId = eventId;
    results.exhibitors = exhibitors;
    // Without this member `@CurrentExhibitor()` answers 409: none was chosen of several, or there is none.
    if (isPublic || exhibitor !== undefined) {
      results.exhibitor = exhibitor;
      results.exhibitorId = exhibitor === undefined ? undefined : services.lookups.idOf(exhibitor);
    }
    keepResults(context, http.request, results);
  }

  /** Id of the exhibitor that the request is about, where it names one. */
  #namedExhibitor(
    http: HttpContext,
    context: ExecutionContext,
  ): string | undefined | Promise<string | undefined> {
    const services = RouteGuard.servicesOf(this);
    return services.settings().resolveExhibitor === undefined
      ? textOf(http.request.params?.['exhibitorId'])
      : services.ask('resolveExhibitor', http, context);
  }

  /** The exhibitors of the user at the event: a cached lookup. An override may read the request, `http`. */
  protected getExhibitors(
    session: SessionState,
    eventId: string,
    _http?: HttpContext,
  ): readonly unknown[] | Promise<readonly unknown[]> {
    const { calls, lookups } = RouteGuard.servicesOf(this);
    // The tenant that was checked, since a source may give its key to another customer meanwhile.
    const { tenant } = session;
    const contactEmail = session.identity.email;
    const subject = { tenant, eventId, contactEmail };
    const remembered = lookups.remembered(subject);
    if (remembered !== undefined) {
      return remembered;
    }
    // The address of a host's session was not checked yet. It tells the testing module of the call, too.
    calls.check('lookup', { eventId, contactEmail }, lookupOptions, { tenant: tenant.key }, undefined);
    return calls.within(tenant, {}, (deadline) => lookups.find(subject, deadline));
  }

  /** The request names no event. By default throws 400 `event_required`; may answer an event id instead. */
  protected onNoEvent(session: SessionState): string | Promise<string> {
    throw noEvent(session);
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
