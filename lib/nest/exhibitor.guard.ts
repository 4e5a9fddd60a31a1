import { Injectable } from '@nestjs/common';
import type { HttpContext } from '../browser/http-context.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import { checkEventId } from '../model/path-parameters.js';
import { ExhibitorIdentityGuard, WHO } from './exhibitor-identity.guard.js';
import {
  hasCurrentExhibitor,
  declaredOn,
  isOverHttp,
  keepResults,
  type Results,
} from './execution-context.js';
import { textOf } from './request-fields.js';
import { noEvent, noExhibitor, notSelected } from './refusals.js';
import { DECIDE, SERVICES } from './route-guard.js';

/**
 * Finds the exhibitors of the user for the event of the request, and sets `request.exhibitors` and
 * `request.exhibitorContext`. 401 no identity, 400 no event or an invalid one, 403 no exhibitor, 404 unknown tenant, 409 several
 * exhibitors and none selected, 502/503/504 the service failed.
 *
 * @example
 * @Get('events/:eventId/mine') @UseGuards(ExhibitorGuard)
 * mine(@CurrentExhibitors() exhibitors: Exhibitor[]) { return exhibitors; }
 */
@Injectable()
export class ExhibitorGuard extends ExhibitorIdentityGuard {
  /** The whole way: who, which event, which exhibitors, which of them. @internal */
  protected override async [DECIDE](http: HttpContext): Promise<Results> {
    const { isPublic, tenant, who, user } = await this[WHO](http);
    const namedEvent = await this.getEvent(http, who?.identity);
    if (who === undefined || (isPublic && namedEvent === undefined)) {
      const eventId = namedEvent === undefined ? undefined : checkEventId(namedEvent);
      return { identity: user, tenant, eventId, exhibitors: [], exhibitor: undefined };
    }
    const { identity } = who;
    const eventId = checkEventId(namedEvent ?? (await this.onNoEvent(http, identity)));
    const exhibitors = await this.getExhibitors(http, identity, eventId);
    if (exhibitors.length === 0 && !isPublic) {
      await this.onNoExhibitor(http, identity, eventId);
    }
    const { lookups, selections } = this[SERVICES];
    const named = await this.#namedExhibitor(http);
    const exhibitor =
      named === undefined && exhibitors.length === 1
        ? exhibitors[0]
        : this[SERVICES].ownOf(exhibitors, named ?? selections.read(http, who, eventId));
    const found: Results = { identity: user, tenant, eventId, exhibitors };
    if (exhibitor !== undefined) {
      return { exhibitor, exhibitorId: lookups.idOf(exhibitor), ...found };
    }
    if (isPublic) {
      return { exhibitor: undefined, ...found };
    }
    if (named !== undefined) {
      throw noExhibitor('this exhibitor is not one of yours at this event', identity.tenant);
    }
    if (exhibitors.length > 1 && hasCurrentExhibitor(http.context)) {
      // For the filter of a host, which leads to a page of this event.
      keepResults(http, found);
      await this.onNotSelected(http, identity, eventId);
      return { exhibitor: undefined, ...found };
    }
    // Several, and the handler asks for none; or none, and `onNoExhibitor` has returned. Without a member `exhibitor`, for which
    // `@CurrentExhibitor()` answers 409.
    return found;
  }

  /** Id of the exhibitor that the request is about, where it names one. */
  #namedExhibitor(http: HttpContext): string | undefined | Promise<string | undefined> {
    return this[SERVICES].resolvers.resolveExhibitor === undefined || declaredOn(http.context).isChoosing
      ? textOf(http.request.params?.['exhibitorId'])
      : this[SERVICES].ask('resolveExhibitor', http);
  }

  /** The exhibitors of the user at the event: by default a cached lookup by the contact e-mail of the identity. */
  protected getExhibitors(
    http: HttpContext,
    identity: ExhibitorIdentity,
    eventId: string,
  ): readonly unknown[] | Promise<readonly unknown[]> {
    return this.#lookUp(http, identity, eventId);
  }

  async #lookUp(
    http: HttpContext,
    identity: ExhibitorIdentity,
    eventId: string,
  ): Promise<readonly unknown[]> {
    // The tenant that was checked, since a source may give its key to another customer meanwhile.
    const { tenant } = await this[SERVICES].withTenant(http, identity);
    return this[SERVICES].exhibitors.lookupOf({ tenant, eventId, contactEmail: identity.email });
  }

  /** The request names no event. By default throws 400 `event_required`; may return an event id instead. */
  protected onNoEvent(_http: HttpContext, identity: ExhibitorIdentity): string | Promise<string> {
    throw noEvent(identity.tenant);
  }

  /**
   * The user has no exhibitor at the event. By default throws 403 `no_exhibitor`. If it returns, the handler runs, unless the request
   * names an exhibitor.
   *
   * @example
   * protected override onNoExhibitor(http: HttpContext): Promise<never> {
   *   return this.redirect(http, '/become-an-exhibitor');
   * }
   */
  protected onNoExhibitor(
    _http: HttpContext,
    identity: ExhibitorIdentity,
    _eventId: string,
  ): void | Promise<void> {
    throw noExhibitor('you have no exhibitor at this event', identity.tenant);
  }

  /**
   * The user has several exhibitors at the event and has chosen none, and the handler has `@CurrentExhibitor()`. By default leads a
   * navigation to the page `choose` of `routes`, and throws 409 `exhibitor_not_selected` for anything else. If it returns, the handler
   * runs, and gets `undefined`.
   */
  protected onNotSelected(
    http: HttpContext,
    identity: ExhibitorIdentity,
    eventId: string,
  ): void | Promise<void> {
    return this.#leadToChoice(http, identity, eventId);
  }

  async #leadToChoice(http: HttpContext, identity: ExhibitorIdentity, eventId: string): Promise<never> {
    const { pages } = this[SERVICES];
    const routes = isOverHttp(http) && pages.mayLead(http) && (await pages.routesFor(identity.tenant));
    if (routes) {
      return this.redirect(http, routes.urlOf('choose', { eventId, returnTo: routes.urlOfRequest(http) }));
    }
    throw notSelected(identity.tenant);
  }
}
