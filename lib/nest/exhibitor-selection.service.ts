import { Inject, Injectable, Optional, type ExecutionContext } from '@nestjs/common';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { recordsAs } from '../exhibitors/rest-client.service.js';
import { isCrossSiteRequest } from '../browser/fetch-metadata.js';
import type { Exhibitor, ExhibitorRequest } from '../model/exhibitor-request.interface.js';
import { foundOf } from '../login/request-user.js';
import { requestPairOf, resultsIn } from './execution-context.js';
import { noEvent, nobody } from './refusals.js';
import { ExhibitorGuardServices, requireServices } from './guard-services.js';

const NAME = 'ExhibitorSelection';

/**
 * Stores which of several exhibitors a user acts for, by tenant and event: in a cookie, until `absoluteTtl`, a logout or a login of
 * another person.
 *
 * @example
 * @Post('events/:eventId/select') @UseGuards(ExhibitorGuard) @Redirect('/', 303)
 * async select(@Req() request: Request, @Res({ passthrough: true }) response: Response, @Body('id') id: string) {
 *   await this.selection.select({ request, response }, id);
 * }
 */
@Injectable()
export class ExhibitorSelection<T = Exhibitor> {
  readonly #services: ExhibitorGuardServices;

  constructor(@Optional() @Inject(ExhibitorGuardServices) services?: ExhibitorGuardServices) {
    this.#services = requireServices(services, NAME);
  }

  /**
   * Selects one of the user's own exhibitors. Needs {@link ExhibitorGuard} on the route.
   *
   * @throws {ExhibitorError} `invalid_argument` where the id is not one of the user's own, for a user with a bearer token, and where a page
   * of another origin caused the request; `unauthenticated` and `event_required` on a public route
   */
  async select(context: ExecutionContext | RequestPairLike, exhibitorId: string): Promise<T> {
    const { http, who, eventId, exhibitors } = this.#changed(context);
    const selected = this.#services.ownOf(recordsAs<T>(exhibitors), exhibitorId);
    if (selected === undefined) {
      throw new ExhibitorError('invalid_argument', "exhibitorId: must be one of the user's own exhibitors", {
        tenant: who.tenant.key,
      });
    }
    this.#services.selections.write(http, who, eventId, exhibitorId);
    return selected;
  }

  /** Removes the selection for the event of the request. Throws as {@link select}. */
  async clear(context: ExecutionContext | RequestPairLike): Promise<void> {
    const { http, who, eventId } = this.#changed(context);
    this.#services.selections.write(http, who, eventId, undefined);
  }

  /** Id of the one that was chosen for the event of the request. @internal */
  chosen(context: ExecutionContext | RequestPairLike): string | undefined {
    const { http, who, eventId, exhibitors } = this.#current(context);
    const chosen = this.#services.chosenOf(http, who, eventId, exhibitors);
    return chosen === undefined ? undefined : this.#services.lookups.idOf(chosen);
  }

  #current(context: ExecutionContext | RequestPairLike) {
    const { request, response } = 'switchToHttp' in context ? requestPairOf(context, NAME) : context;
    if (!isRequest(request)) {
      throw new Error('ExhibitorSelection needs the request of the guard');
    }
    const found = 'switchToHttp' in context ? resultsIn(context, request) : request.exhibitorContext;
    if (found?.exhibitors === undefined) {
      throw new Error('ExhibitorSelection needs ExhibitorGuard on the route');
    }
    const http = this.#services.httpOf(request, response);
    if (!http.takesHeaders) {
      throw new Error(
        'ExhibitorSelection needs a response whose head is not written: in GraphQL, return { req, res } from the context option',
      );
    }
    const { identity, eventId, exhibitors } = found;
    const who = foundOf(request, identity);
    if (who === undefined) {
      throw nobody();
    }
    if (eventId === undefined) {
      throw noEvent(who.tenant.key);
    }
    return { http, who, eventId, exhibitors };
  }

  #changed(context: ExecutionContext | RequestPairLike) {
    const current = this.#current(context);
    const { http, who } = current;
    const { trustedOrigins } = this.#services.settings();
    if (isCrossSiteRequest(http, who.tenant.login?.redirectUri, trustedOrigins)) {
      throw new ExhibitorError('invalid_argument', 'a selection must come from this site');
    }
    return current;
  }
}

/** A request and its response, of Express or Fastify. */
export interface RequestPairLike {
  request: object;
  response: object;
}

function isRequest(request: object): request is ExhibitorRequest {
  return 'headers' in request && 'method' in request;
}
