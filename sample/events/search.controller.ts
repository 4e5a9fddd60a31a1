import { Controller, Get, Inject, Param, Query, Render, UseGuards, UseInterceptors } from '@nestjs/common';
import { CurrentTenant, ExhibitorIdentityGuard, ExhibitorsService } from 'nestjs-exhibitor';
import { filter, firstValueFrom, take, toArray } from 'rxjs';
import type { Booth } from '../booth/booth.schema.js';
import { PageInterceptor } from '../pages/page.interceptor.js';

/** A search ends when it has found so many. */
const MOST_MATCHES = 100;

/** Searches the exhibitors of an event. A portal with many searches keeps its events in a database: see `mirror/`. */
@Controller(':tenant/events/:eventId/exhibitors/search')
@UseGuards(ExhibitorIdentityGuard)
@UseInterceptors(PageInterceptor)
export class SearchController {
  constructor(@Inject(ExhibitorsService) private readonly exhibitors: ExhibitorsService<Booth>) {}

  @Get()
  @Render('search')
  async search(
    @CurrentTenant() tenant: string,
    @Param('eventId') eventId: string,
    @Query('q') query?: unknown,
  ) {
    const matches = this.exhibitors
      .forTenant(tenant)
      .stream(eventId)
      .pipe(filter(matcherOf(query)), take(MOST_MATCHES), toArray());
    return { rows: await firstValueFrom(matches), query, most: MOST_MATCHES };
  }
}

/** True for booths that contain every word of the query, in any field that is shown; upper and lower case are equal. */
function matcherOf(query: unknown): (booth: Booth) => boolean {
  const words = typeof query === 'string' ? query.toLowerCase().split(/\s+/) : [];
  return ({ name, hall, booth, country }) => {
    const text = [name, hall, booth, country].join('\n').toLowerCase();
    return words.every((word) => text.includes(word));
  };
}
