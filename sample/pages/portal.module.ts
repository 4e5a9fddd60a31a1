import { Module, type DynamicModule } from '@nestjs/common';
import { APP_FILTER, APP_GUARD } from '@nestjs/core';
import { EventSizes } from '../events/event-sizes.service.js';
import { HomeController } from '../events/home.controller.js';
import { KnownEventGuard } from '../events/known-event.guard.js';
import { SearchController } from '../events/search.controller.js';
import { People } from '../people/people.js';
import { Portals } from '../portals.service.js';
import { SAMPLE_OPTIONS, type SampleOptions } from '../sample-options.js';
import { TourController } from '../tour/tour.controller.js';
import { Tour } from '../tour/tour.js';
import { AssetsController } from './assets.controller.js';
import { PageFilter } from './page.filter.js';

/** What the portals have beside the module: start page, search, error pages, assets and the tour. */
@Module({})
export class PortalModule {
  static register(options: SampleOptions, tour: Tour): DynamicModule {
    return {
      module: PortalModule,
      global: true,
      controllers: [AssetsController, TourController, HomeController, SearchController],
      providers: [
        { provide: SAMPLE_OPTIONS, useValue: options },
        { provide: APP_FILTER, useClass: PageFilter },
        { provide: APP_GUARD, useClass: KnownEventGuard },
        Portals,
        People,
        EventSizes,
        { provide: Tour, useValue: tour },
      ],
      exports: [Portals, People],
    };
  }
}
