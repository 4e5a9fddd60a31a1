import { Inject, Injectable } from '@nestjs/common';
import { ExhibitorsService } from 'nestjs-exhibitor';
import { firstValueFrom } from 'rxjs';
import { SAMPLE_OPTIONS, type SampleOptions } from '../sample-options.js';

const FRESH_MS = 60_000;
// The start page is not worth a long wait for a number.
const DEADLINE_MS = 3_000;

/** How many exhibitors each event has, kept for a minute: everybody may open the start page as often as they like. */
@Injectable()
export class EventSizes {
  private readonly known = new Map<string, { size: Promise<number | undefined>; until: number }>();

  constructor(
    @Inject(ExhibitorsService) private readonly exhibitors: ExhibitorsService,
    @Inject(SAMPLE_OPTIONS) private readonly options: SampleOptions,
  ) {}

  /** `undefined` while the service cannot tell. */
  sizeOf(eventId: string): Promise<number | undefined> {
    const known = this.known.get(eventId);
    if (known && known.until > Date.now()) {
      return known.size;
    }
    const size = this.ask(eventId);
    this.known.set(eventId, { size, until: Date.now() + FRESH_MS });
    return size;
  }

  private async ask(eventId: string): Promise<number | undefined> {
    try {
      const { tenant } = this.options;
      const options = { tenant, itemsPerPage: 1, deadline: DEADLINE_MS };
      const page = await firstValueFrom(this.exhibitors.list(eventId, options));
      return page.paginationMetadata.totalCount;
    } catch {
      this.known.delete(eventId);
      return undefined;
    }
  }
}
