import { Inject, Injectable, NotFoundException } from '@nestjs/common';
import type { Portal, TradeEvent } from './portals.js';
import { SAMPLE_OPTIONS, type SampleOptions } from './sample-options.js';

/** Finds portals and events. */
@Injectable()
export class Portals {
  constructor(@Inject(SAMPLE_OPTIONS) private readonly options: SampleOptions) {}

  get all(): readonly Portal[] {
    return this.options.portals;
  }

  /** @throws NotFoundException */
  portal(tenant: string | undefined): Portal {
    return found(this.all.find((portal) => portal.tenant === tenant));
  }

  /** @throws NotFoundException */
  event(tenant: string | undefined, id: string): TradeEvent {
    return found(this.portal(tenant).events.find((event) => event.id === id));
  }
}

function found<T>(value: T | undefined): T {
  if (value === undefined) {
    throw new NotFoundException();
  }
  return value;
}
