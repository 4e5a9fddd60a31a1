import { Injectable } from '@nestjs/common';
import type { HttpContext } from '../browser/http-context.js';
import type { FoundIdentity } from '../login/identity.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import type { ExhibitorContext } from '../model/exhibitor-request.interface.js';
import { checkEventId } from '../model/path-parameters.js';
import { ExhibitorIdentityGuard, WHO, type Visitor } from './exhibitor-identity.guard.js';
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
    const visitor = await this[WHO](http);
    if (visitor.isPublic) {
      return this.#decidePublic(http, visitor);
    }
    const { tenant, who, user } = visitor;
    const { identity } = who;
    const namedEvent = await this.getEvent(http, identity);
    const eventId = checkEventId(namedEvent ?? (await this.onNoEvent(http, identity)));
    const exhibitors = await this.getExhibitors(http, identity, eventId);
    if (exhibitors.length === 0) {
      await this.onNoExhibitor(http, identity, eventId);
    }
    // Without a member `exhibitor`, `@CurrentExhibitor()` answers 409. Where it is there and `undefined`, the handler gets that.
    const undecided = { identity: user, tenant, eventId, exhibitors };
    const named = await this.#namedExhibitor(http);
    const chosen = this.#choose(http, who, undecided, named);
    if (chosen !== undefined) {
      return chosen;
    }
    if (named !== undefined) {
      throw noExhibitor('this exhibitor is not one of yours at this event', identity.tenant);
    }
    if (exhibitors.length === 0 || !hasCurrentExhibitor(http.context)) {
      return undecided;
    }
    // Already now: where the next step throws, the filter of a host leads to a page of this event.
    keepResults(http, undecided);
    await this.onNotSelected(http, identity, eventId);
    return { exhibitor: undefined, ...undecided };
  }

  /** A public route: only an invalid event id is refused. Whatever else is missing, the handler gets `undefined`. */
  async #decidePublic(http: HttpContext, { tenant, who, user }: Visitor): Promise<Results> {
    const namedEvent = await this.getEvent(http, who?.identity);
    const eventId = namedEvent === undefined ? undefined : checkEventId(namedEvent);
    if (who === undefined || eventId === undefined) {
      return { identity: user, tenant, eventId, exhibitors: [], exhibitor: undefined };
    }
    const exhibitors = await this.getExhibitors(http, who.identity, eventId);
    const undecided = { identity: user, tenant, eventId, exhibitors };
    const named = await this.#namedExhibitor(http);
    return this.#choose(http, who, undecided, named) ?? { exhibitor: undefined, ...undecided };
  }

  /** Adds the exhibitor that the request names, else the only one, else the selected one; `undefined` where the user has no such one. */
  #choose(
    http: HttpContext,
    who: FoundIdentity,
    undecided: Results & Pick<ExhibitorContext, 'eventId' | 'exhibitors'>,
    named: string | undefined,
  ): Results | undefined {
    const { eventId, exhibitors } = undecided;
    const services = this[SERVICES];
    let exhibitor: unknown;
    if (named !== undefined) {
      exhibitor = services.ownOf(exhibitors, named);
    } else if (exhibitors.length === 1) {
      [exhibitor] = exhibitors;
    } else {
      exhibitor = services.chosenOf(http, who, eventId, exhibitors);
    }
    return exhibitor === undefined
      ? undefined
      : { exhibitor, exhibitorId: services.lookups.idOf(exhibitor), ...undecided };
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
    const services = this[SERVICES];
    // The tenant that was checked, since a source may give its key to another customer meanwhile.
    return services
      .withTenant(http, identity)
      .then(({ tenant }) => services.exhibitors.lookupOf({ tenant, eventId, contactEmail: identity.email }));
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
