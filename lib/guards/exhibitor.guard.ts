import { Injectable, type ExecutionContext } from '@nestjs/common';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import type { HttpContext } from '../http/http-context.js';
import type { SessionState } from '../session/identity-session.service.js';
import { ExhibitorIdentityGuard } from './exhibitor-identity.guard.js';
import { rememberState } from './request-state.js';

/**
 * Answers which exhibitors the person stands for at the event at hand, and puts them on the request
 * (`request.exhibitors`, `request.exhibitorContext`). 401 no identity, 400 no event, 403 no exhibitor, 404 unknown
 * tenant, 502/503/504 the service failed.
 *
 * @example
 * @Get('events/:eventId/mine') @UseGuards(ExhibitorGuard)
 * mine(@CurrentExhibitors() exhibitors: Exhibitor[]) { return exhibitors; }
 */
@Injectable()
export class ExhibitorGuard extends ExhibitorIdentityGuard {
  protected override async check(http: HttpContext, context: ExecutionContext): Promise<void> {
    const state = await this.requireIdentity(http, context);
    const eventId = (await this.getEvent(http, context, state)) ?? this.onNoEvent(state);
    const exhibitors = await this.getExhibitors(state, eventId);
    if (exhibitors.length === 0) {
      this.onNoExhibitor(state, eventId);
    }
    const exhibitorId = await this.resolver.exhibitorId(http, context, state, eventId, exhibitors);
    this.attach(http, context, { session: state, eventId, exhibitors }, exhibitorId);
  }

  protected getEvent(
    http: HttpContext,
    context: ExecutionContext,
    state: SessionState,
  ): Promise<string | undefined> {
    return this.resolver.eventId(http, context, state.identity.eventId);
  }

  protected getExhibitors(state: SessionState, eventId: string): Promise<readonly unknown[]> {
    return this.resolver.lookup(state, eventId);
  }

  /** The request names no event. */
  protected onNoEvent(state: SessionState): never {
    throw new ExhibitorError('event_required', 'the request names no event', { tenant: state.tenant.key });
  }

  /** The person stands for nobody at this event. Override it to let such requests through: do not throw. */
  protected onNoExhibitor(state: SessionState, _eventId: string): void {
    throw new ExhibitorError('no_exhibitor', 'you stand for no exhibitor at this event', {
      tenant: state.tenant.key,
    });
  }

  private attach(
    { request }: HttpContext,
    context: ExecutionContext,
    found: FoundExhibitors,
    exhibitorId: string | undefined,
  ): void {
    const { session, eventId, exhibitors } = found;
    const { identity, tenant } = session;
    request.exhibitors = exhibitors;
    request.exhibitorContext = { identity, tenant: tenant.key, eventId, exhibitors, exhibitorId };
    const exhibitor = this.resolver.find(exhibitors, exhibitorId);
    rememberState(request, { ...found, exhibitor }, context);
  }
}

interface FoundExhibitors {
  session: SessionState;
  eventId: string;
  exhibitors: readonly unknown[];
}
