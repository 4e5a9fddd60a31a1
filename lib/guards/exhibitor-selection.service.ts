import { Inject, Injectable, type ExecutionContext } from '@nestjs/common';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import type { HttpContext } from '../http/http-context.js';
import { IdentitySession } from '../session/identity-session.service.js';
import type { Exhibitor, ExhibitorRequest } from '../model/exhibitor-request.interface.js';
import { requestPairOf, type RequestPair } from './execution-request.js';
import { stateIn, stateOf, type RequestState } from './request-state.js';
import { RequestResolver } from './request-resolver.service.js';
import { isSameOrigin } from '../http/cross-site-request.js';

/**
 * Keeps which of several exhibitors a person acts for at an event: per person, tenant and event, until the logout.
 *
 * @example
 * @Post('events/:eventId/select') @UseGuards(ExhibitorGuard) @Redirect('/', 303)
 * async select(@Req() request: Request, @Res({ passthrough: true }) response: Response, @Body('id') id: string) {
 *   await this.selection.select({ request, response }, id);
 * }
 */
@Injectable()
export class ExhibitorSelection<T = Exhibitor> {
  constructor(
    @Inject(RequestResolver) private readonly resolver: RequestResolver,
    @Inject(IdentitySession) private readonly session: IdentitySession,
  ) {}

  /**
   * Chooses one of the person's own exhibitors. Needs {@link ExhibitorGuard} on the route.
   *
   * @throws {ExhibitorError} `invalid_argument` for an id that is not one's own, or a request of another site
   */
  async select(context: ExecutionContext | RequestPairLike, exhibitorId: string): Promise<T> {
    const { http, state, eventId } = this.#current(context);
    const exhibitors = state.exhibitors ?? [];
    const chosen = typeof exhibitorId === 'string' ? this.resolver.find(exhibitors, exhibitorId) : undefined;
    if (!isOneOf<T>(chosen, exhibitors)) {
      throw new ExhibitorError(
        'invalid_argument',
        "exhibitorId: must be one of the person's own exhibitors",
        {
          tenant: state.session.tenant.key,
        },
      );
    }
    await this.session.select(http, state.session, eventId, exhibitorId);
    return chosen;
  }

  /** Forgets the choice for the event of this request. */
  async clear(context: ExecutionContext | RequestPairLike): Promise<void> {
    const { http, state, eventId } = this.#current(context);
    await this.session.select(http, state.session, eventId, undefined);
  }

  #current(context: ExecutionContext | RequestPairLike): {
    http: HttpContext;
    state: RequestState;
    eventId: string;
  } {
    const pair: RequestPair = isExecutionContext(context) ? requestPairOf(context) : toPair(context);
    const state = isExecutionContext(context) ? stateIn(context) : stateOf(pair.request);
    if (state?.eventId === undefined || state.exhibitors === undefined) {
      throw new Error('ExhibitorSelection needs ExhibitorGuard on the route');
    }
    if (pair.response === undefined) {
      throw new Error(
        'ExhibitorSelection needs the response: return { req, res } from the GraphQL context option',
      );
    }
    const http = this.resolver.httpOf(pair);
    const redirectUri = state.session.tenant.login?.redirectUri;
    if (!isSameOrigin(http, redirectUri === undefined ? undefined : new URL(redirectUri).origin)) {
      throw new ExhibitorError('invalid_argument', 'a selection must come from this site');
    }
    return { http, state, eventId: state.eventId };
  }
}

/** A request and its response, as a controller has them on Express and on Fastify. */
export interface RequestPairLike {
  request: object;
  response: object;
}

function isExecutionContext(context: ExecutionContext | RequestPairLike): context is ExecutionContext {
  return 'switchToHttp' in context;
}

function toPair({ request, response }: RequestPairLike): RequestPair {
  if (!isRequest(request)) {
    throw new Error('ExhibitorSelection needs the request that the guard has seen');
  }
  return { request, response };
}

/** Only the very request a guard has seen is looked up further on. */
function isRequest(request: object): request is ExhibitorRequest {
  return 'headers' in request && 'method' in request;
}

/** `T` is what the host says its records are; that it is one of them is all there is to check. */
function isOneOf<T>(record: unknown, records: readonly unknown[]): record is T {
  return record !== undefined && records.includes(record);
}
