import { Controller, Get, Inject, Render, Req, UseGuards, UseInterceptors } from '@nestjs/common';
import { OptionalIdentityGuard } from '../pages/optional-identity.guard.js';
import { PersonInterceptor } from '../pages/person.interceptor.js';
import { SAMPLE_OPTIONS, type SampleOptions } from '../sample-options.js';
import { EventSizes } from './event-sizes.service.js';

@Controller()
@UseGuards(OptionalIdentityGuard)
@UseInterceptors(PersonInterceptor)
export class HomeController {
  constructor(
    @Inject(EventSizes) private readonly sizes: EventSizes,
    @Inject(SAMPLE_OPTIONS) private readonly options: SampleOptions,
  ) {}

  @Get()
  @Render('home')
  async home(@Req() request: { user?: unknown }) {
    const events = this.options.events.map(async (event) => ({
      ...event,
      size: await this.sizes.sizeOf(event.id),
      ...doors(event.id, request.user !== undefined),
    }));
    return { events: await Promise.all(events) };
  }
}

/** Where the two links of an event lead: through the login first for somebody we do not know yet. */
function doors(id: string, known: boolean) {
  const eventId = encodeURIComponent(id);
  const mine = `/events/${eventId}/mine`;
  const all = `/events/${eventId}/exhibitors`;
  const throughLogin = (path: string) =>
    `/auth/login?eventId=${eventId}&returnTo=${encodeURIComponent(path)}`;
  return known ? { mine, all } : { mine: throughLogin(mine), all: throughLogin(all) };
}
