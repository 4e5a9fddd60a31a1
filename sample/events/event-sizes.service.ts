import { Inject, Injectable } from '@nestjs/common';
import { ExhibitorsService } from 'nestjs-exhibitor';
import { firstValueFrom } from 'rxjs';

const CACHE_MS = 60_000;
// Short, so that a slow service does not delay the start page.
const DEADLINE_MS = 3_000;

/** The number of exhibitors of each event, cached for one minute: the start page is public. */
@Injectable()
export class EventSizes {
  private readonly cache = new Map<string, { size: Promise<number | undefined>; expiresAt: number }>();

  constructor(@Inject(ExhibitorsService) private readonly exhibitors: ExhibitorsService) {}

  /** Number of exhibitors of an event. `undefined` if the request to the service fails. */
  sizeOf(tenant: string, eventId: string): Promise<number | undefined> {
    const key = `${tenant}/${eventId}`;
    const cached = this.cache.get(key);
    if (cached && cached.expiresAt > Date.now()) {
      return cached.size;
    }
    const size = this.fetchSize(tenant, eventId);
    this.cache.set(key, { size, expiresAt: Date.now() + CACHE_MS });
    return size;
  }

  private async fetchSize(tenant: string, eventId: string): Promise<number | undefined> {
    try {
      const options = { tenant, itemsPerPage: 1, deadline: DEADLINE_MS };
      const page = await firstValueFrom(this.exhibitors.list(eventId, options));
      return page.paginationMetadata.totalCount;
    } catch {
      this.cache.delete(`${tenant}/${eventId}`);
      return undefined;
    }
  }
}
