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

/** All exhibitors of an event: page by page as plain HTML, or the whole list as it arrives. */
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
    @Query('page') asked?: string,
  ) {
    const { data, paginationMetadata } = await firstValueFrom(
      this.exhibitors.list(eventId, { tenant, page }),
    );
    return {
      event: describeEvent(this.options.events, eventId),
      rows: data,
      paging: paginationMetadata,
      // Whoever turns pages by hand keeps doing so; a first visit shows everything, where scripts run.
      live: asked === undefined,
    };
  }

  /**
   * `pages` asks for the next page while the browser shows the last one. When the browser leaves, Nest unsubscribes,
   * and the requests under way are cancelled on the wire.
   */
  @Sse('live')
  live(@CurrentTenant() tenant: string, @Param('eventId') eventId: string): Observable<MessageEvent> {
    return liveMessages(this.exhibitors.pages(eventId, { tenant }));
  }
}
