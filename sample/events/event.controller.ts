import {
  Controller,
  Get,
  Inject,
  Param,
  ParseIntPipe,
  Query,
  Render,
  Sse,
  UseGuards,
  UseInterceptors,
  type MessageEvent,
} from '@nestjs/common';
import { CurrentTenant, ExhibitorIdentityGuard, ExhibitorsService } from 'nestjs-exhibitor';
import { firstValueFrom, type Observable } from 'rxjs';
import type { Booth } from '../booth/booth.schema.js';
import { PageInterceptor } from '../pages/page.interceptor.js';
import { liveMessages } from './live-messages.js';

/** All exhibitors of an event: as HTML pages, or as a live list that the browser loads with server-sent events. */
@Controller(':tenant/events/:eventId/exhibitors')
@UseGuards(ExhibitorIdentityGuard)
export class EventController {
  constructor(@Inject(ExhibitorsService) private readonly exhibitors: ExhibitorsService<Booth>) {}

  /** Without `?page=` the browser loads the whole list, if scripts are enabled. */
  @Get()
  @UseInterceptors(PageInterceptor)
  @Render('event')
  async page(
    @CurrentTenant() tenant: string,
    @Param('eventId') eventId: string,
    @Query('page', new ParseIntPipe({ optional: true })) page?: number,
  ) {
    const list = this.exhibitors.forTenant(tenant).list(eventId, { page });
    const { data, paginationMetadata } = await firstValueFrom(list);
    return { rows: data, paging: paginationMetadata, live: page === undefined && data.length > 0 };
  }

  /**
   * Sends the pages of an event to the browser. `pages` requests the next pages in advance. When the browser closes the
   * connection, NestJS unsubscribes, which aborts the requests under way.
   */
  @Sse('live')
  live(@CurrentTenant() tenant: string, @Param('eventId') eventId: string): Observable<MessageEvent> {
    return liveMessages(this.exhibitors.forTenant(tenant).pages(eventId));
  }
}
