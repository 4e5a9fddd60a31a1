import {
  Body,
  Controller,
  Get,
  Inject,
  ParseIntPipe,
  Post,
  Query,
  Redirect,
  Render,
  UseGuards,
} from '@nestjs/common';
import { CurrentTenant, ExhibitorIdentityGuard, ExhibitorsService } from 'nestjs-exhibitor';
import { copyEvent } from 'nestjs-exhibitor/mirror';
import { SameOriginGuard } from '../same-origin.guard.js';
import { CopiedExhibitors } from './copied-exhibitors.service.js';
import { CopyPlan } from './copies.js';
import { PostgresMirror } from './postgres-mirror.js';

/** The mirror of one tenant, and a search in its rows. Only operators log in: `authorize` refuses all others. */
@Controller()
export class MirrorController {
  constructor(
    @Inject(ExhibitorsService) private readonly exhibitors: ExhibitorsService,
    @Inject(PostgresMirror) private readonly mirror: PostgresMirror<object>,
    @Inject(CopiedExhibitors) private readonly copied: CopiedExhibitors,
    @Inject(CopyPlan) private readonly plan: CopyPlan,
  ) {}

  @Get()
  @Redirect()
  start() {
    return { url: `/${this.plan.events[0]?.tenant}` };
  }

  @Get(':tenant')
  @UseGuards(ExhibitorIdentityGuard)
  @Render('mirror')
  async page(@CurrentTenant() tenant: string, @Query('text') text?: unknown) {
    return {
      tenant,
      tenants: [...new Set(this.plan.events.map((event) => event.tenant))],
      events: await this.mirror.events(tenant),
      text,
      found: typeof text === 'string' ? await this.copied.search(tenant, text) : undefined,
    };
  }

  /** Copies now, and removes up to so many rows: the number that the operator saw. */
  @Post(':tenant/copy')
  @UseGuards(ExhibitorIdentityGuard, SameOriginGuard)
  @Redirect('/', 303)
  async copy(
    @CurrentTenant() tenant: string,
    @Body('eventId') eventId: string,
    @Body('maxRemovals', ParseIntPipe) maxRemovals: number,
  ) {
    const scope = { tenant, eventId };
    await this.mirror.note(scope, await copyEvent(this.exhibitors, this.mirror, scope, { maxRemovals }));
    return { url: `/${encodeURIComponent(tenant)}` };
  }
}
