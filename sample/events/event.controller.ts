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
import { catchError, concat, firstValueFrom, map, of, type Observable } from 'rxjs';
import type { Booth } from '../booth/booth.schema.js';
import { PageInterceptor } from '../pages/page.interceptor.js';

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
    const pages = this.exhibitors
      .forTenant(tenant)
      .pages(eventId)
      .pipe(
        map(({ data, paginationMetadata: { totalCount } }): MessageEvent => {
          return { type: 'page', data: { rows: data, total: totalCount } };
        }),
      );
    return concat(pages, of<MessageEvent>({ type: 'done', data: {} })).pipe(
      // The status of the reply has been sent, so that a failure can only be a message. The log says what it was.
      catchError(() => of<MessageEvent>({ type: 'failed', data: {} })),
    );
  }
}
