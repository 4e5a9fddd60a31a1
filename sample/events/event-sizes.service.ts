import { Inject, Injectable } from '@nestjs/common';
import { ExhibitorsService } from 'nestjs-exhibitor';
import { firstValueFrom } from 'rxjs';
import { SAMPLE_OPTIONS, type SampleOptions } from '../sample-options.js';

const CACHE_MS = 60_000;
// Short, so that a slow service does not delay the start page.
const DEADLINE_MS = 3_000;

/** The number of exhibitors of each event, cached for one minute: the start page is public. */
@Injectable()
export class EventSizes {
  private readonly cache = new Map<string, { size: Promise<number | undefined>; expiresAt: number }>();

  constructor(
    @Inject(ExhibitorsService) private readonly exhibitors: ExhibitorsService,
    @Inject(SAMPLE_OPTIONS) private readonly options: SampleOptions,
  ) {}

  /** Number of exhibitors of an event. `undefined` if the request to the service fails. */
  sizeOf(eventId: string): Promise<number | undefined> {
    const cached = this.cache.get(eventId);
    if (cached && cached.expiresAt > Date.now()) {
      return cached.size;
    }
    const size = this.fetchSize(eventId);
    this.cache.set(eventId, { size, expiresAt: Date.now() + CACHE_MS });
    return size;
  }

  private async fetchSize(eventId: string): Promise<number | undefined> {
    try {
      const { tenant } = this.options;
      const options = { tenant, itemsPerPage: 1, deadline: DEADLINE_MS };
      const page = await firstValueFrom(this.exhibitors.list(eventId, options));
      return page.paginationMetadata.totalCount;
    } catch {
      this.cache.delete(eventId);
      return undefined;
    }
  }
}
