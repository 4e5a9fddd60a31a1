import { Controller, Get, Inject, Redirect, Render, Req, UseGuards, UseInterceptors } from '@nestjs/common';
import { AllowAnonymous, ExhibitorIdentityGuard } from 'nestjs-exhibitor';
import { PageInterceptor, type RequestWithIdentity } from '../pages/page.interceptor.js';
import { People } from '../people/people.js';
import { Portals } from '../portals.service.js';
import { EventSizes } from './event-sizes.service.js';

@Controller()
export class HomeController {
  constructor(
    @Inject(EventSizes) private readonly sizes: EventSizes,
    @Inject(Portals) private readonly portals: Portals,
    @Inject(People) private readonly people: People,
  ) {}

  @Get()
  @Redirect()
  firstPortal() {
    return { url: `/${this.portals.all[0]?.tenant}` };
  }

  @Get(':tenant')
  @AllowAnonymous()
  @UseGuards(ExhibitorIdentityGuard)
  @UseInterceptors(PageInterceptor)
  @Render('home')
  async home(@Req() { params, user }: RequestWithIdentity) {
    const { tenant, events } = this.portals.portal(params['tenant']);
    const shown = events.map(async (event) => ({
      ...event,
      size: await this.sizes.sizeOf(tenant, event.id),
      ...(user ? eventPaths(tenant, event.id) : loginPaths(tenant, event.id)),
    }));
    return { events: await Promise.all(shown), isAdministrator: this.people.isAdministrator(user) };
  }
}

/** The two links of an event. */
function eventPaths(tenant: string, id: string) {
  const event = `/${tenant}/events/${encodeURIComponent(id)}`;
  return { mine: `${event}/mine`, all: `${event}/exhibitors` };
}

/** The two links of an event for a person who is not logged in: they lead to the login first. */
function loginPaths(tenant: string, eventId: string) {
  const { mine, all } = eventPaths(tenant, eventId);
  const login = (returnTo: string) => `/${tenant}/auth/login?${new URLSearchParams({ eventId, returnTo })}`;
  return { mine: login(mine), all: login(all) };
}
