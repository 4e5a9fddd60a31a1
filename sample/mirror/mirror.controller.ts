import { Body, Controller, Get, Inject, ParseIntPipe, Post, Query, Redirect, Render } from '@nestjs/common';
import { ExhibitorMirror, type MirrorScope } from 'nestjs-exhibitor/bullmq';
import { CopiedExhibitors } from './copied-exhibitors.service.js';

/**
 * The state of the mirror, and a search in its rows. In a real host, this page is for operators: protect it by a login and
 * against cross-site requests.
 */
@Controller()
export class MirrorController {
  constructor(
    @Inject(ExhibitorMirror) private readonly mirror: ExhibitorMirror,
    @Inject(CopiedExhibitors) private readonly copied: CopiedExhibitors,
  ) {}

  @Get()
  @Render('mirror')
  async page(
    @Query('tenant') tenant?: unknown,
    @Query('text') text?: unknown,
    @Query('approved') approved?: unknown,
  ) {
    const states = await this.mirror.status();
    const search = typeof tenant === 'string' && typeof text === 'string' ? { tenant, text } : undefined;
    return {
      approved,
      states: states.toSorted((one, other) => nameOf(one).localeCompare(nameOf(other))),
      tenants: [...new Set(states.map((state) => state.tenant))].toSorted(),
      search,
      found: search && (await this.copied.search(search.tenant, search.text)),
    };
  }

  /** Lets held removals go, up to the number that the operator saw. The event is copied again soon. */
  @Post('approve')
  @Redirect('/?approved', 303)
  async approve(
    @Body('tenant') tenant: string,
    @Body('eventId') eventId: string,
    @Body('removals', ParseIntPipe) removals: number,
  ): Promise<void> {
    await this.mirror.approve({ tenant, eventId }, removals);
  }
}

function nameOf({ tenant, eventId }: MirrorScope): string {
  return `${tenant} ${eventId}`;
}
