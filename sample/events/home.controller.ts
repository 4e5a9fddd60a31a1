import { Controller, Get, Inject, Redirect, Render, Req, UseGuards, UseInterceptors } from '@nestjs/common';
import {
  AllowAnonymous,
  CurrentIdentity,
  ExhibitorIdentityGuard,
  type ExhibitorIdentity,
} from 'nestjs-exhibitor';
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

  /** Where logins lead that name no page. */
  @Get()
  @AllowAnonymous()
  @UseGuards(ExhibitorIdentityGuard)
  @Redirect()
  portal(@CurrentIdentity() identity?: ExhibitorIdentity) {
    return { url: `/${identity?.tenant ?? this.portals.all[0]?.tenant}` };
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
    }));
    return { events: await Promise.all(shown), isAdministrator: this.people.isAdministrator(user) };
  }
}
