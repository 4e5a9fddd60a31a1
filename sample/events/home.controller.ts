import { Controller, Get, Inject, Render, Req, UseGuards, UseInterceptors } from '@nestjs/common';
import { AllowAnonymous, ExhibitorIdentityGuard } from 'nestjs-exhibitor';
import { PersonInterceptor, type RequestWithIdentity } from '../pages/person.interceptor.js';
import { SAMPLE_OPTIONS, type SampleOptions } from '../sample-options.js';
import { EventSizes } from './event-sizes.service.js';

@Controller()
@AllowAnonymous()
@UseGuards(ExhibitorIdentityGuard)
@UseInterceptors(PersonInterceptor)
export class HomeController {
  constructor(
    @Inject(EventSizes) private readonly sizes: EventSizes,
    @Inject(SAMPLE_OPTIONS) private readonly options: SampleOptions,
  ) {}

  @Get()
  @Render('home')
  async home(@Req() request: RequestWithIdentity) {
    const events = this.options.events.map(async (event) => ({
      ...event,
      size: await this.sizes.sizeOf(event.id),
      ...(request.user ? eventPaths(event.id) : loginPaths(event.id)),
    }));
    return { events: await Promise.all(events) };
  }
}

/** The two links of an event. */
function eventPaths(id: string) {
  const event = `/events/${encodeURIComponent(id)}`;
  return { mine: `${event}/mine`, all: `${event}/exhibitors` };
}

/** The two links of an event for a person who is not logged in: they lead to the login first. */
function loginPaths(id: string) {
  const { mine, all } = eventPaths(id);
  return { mine: loginPath(id, mine), all: loginPath(id, all) };
}

function loginPath(eventId: string, returnTo: string): string {
  return `/auth/login?eventId=${encodeURIComponent(eventId)}&returnTo=${encodeURIComponent(returnTo)}`;
}
