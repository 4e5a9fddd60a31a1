import {
  Controller,
  DefaultValuePipe,
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
import { PersonInterceptor } from '../pages/person.interceptor.js';
import { SAMPLE_OPTIONS, type SampleOptions } from '../sample-options.js';
import { liveMessages } from './live-messages.js';
import { describeEvent } from './trade-events.js';

/** All exhibitors of an event: as HTML pages, or as a live list that the browser loads with server-sent events. */
@Controller('events/:eventId/exhibitors')
@UseGuards(ExhibitorIdentityGuard)
export class EventController {
  constructor(
    @Inject(ExhibitorsService) private readonly exhibitors: ExhibitorsService<Booth>,
    @Inject(SAMPLE_OPTIONS) private readonly options: SampleOptions,
  ) {}

  @Get()
  @UseInterceptors(PersonInterceptor)
  @Render('event')
  async page(
    @CurrentTenant() tenant: string,
    @Param('eventId') eventId: string,
    @Query('page', new DefaultValuePipe(1), ParseIntPipe) page: number,
    @Query('page') requestedPage?: string,
  ) {
    const { data, paginationMetadata } = await firstValueFrom(
      this.exhibitors.list(eventId, { tenant, page }),
    );
    return {
      event: describeEvent(this.options.events, eventId),
      rows: data,
      paging: paginationMetadata,
      // Without `?page=` the browser loads the whole list if scripts are enabled.
      live: requestedPage === undefined,
    };
  }

  /**
   * Sends the pages of an event to the browser. `pages` requests the next pages in advance. When the browser closes the
   * connection, NestJS unsubscribes, which aborts the requests under way.
   */
  @Sse('live')
  live(@CurrentTenant() tenant: string, @Param('eventId') eventId: string): Observable<MessageEvent> {
    return liveMessages(this.exhibitors.pages(eventId, { tenant }));
  }
}
