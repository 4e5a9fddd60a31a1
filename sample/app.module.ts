import { Module, type DynamicModule } from '@nestjs/common';
import { ExhibitorModule } from 'nestjs-exhibitor';
import { BoothController } from './booth/booth.controller.js';
import { boothSchema } from './booth/booth.schema.js';
import { EventController } from './events/event.controller.js';
import { CallbackGuard } from './people/callback.guard.js';
import { PeopleController } from './people/people.controller.js';
import { ModulePages } from './pages/module-pages.js';
import { PortalModule } from './pages/portal.module.js';
import type { Views } from './pages/views.js';
import type { SampleOptions } from './sample-options.js';
import type { Tour } from './tour/tour.js';

@Module({})
export class AppModule {
  static register(options: SampleOptions, tour: Tour, views: Views): DynamicModule {
    const { tenants, secrets } = options;
    const pages = new ModulePages(options, views);
    return {
      module: AppModule,
      imports: [
        ExhibitorModule.forRootAsync({
          isGlobal: true,
          routes: {
            path: ':tenant/auth',
            render: (page, http) => pages.render(page, http),
            guards: { callback: CallbackGuard },
          },
          useFactory: () => ({
            tenants,
            resolveTenant: ({ params }) => params['tenant'],
            secrets,
            logoutCheck: { provider: true },
            exhibitorSchema: boothSchema,
            exhibitorLabel: ({ name, hall, booth }) =>
              [name, hall, booth && `Booth ${booth}`].filter(Boolean).join(' · '),
            http: { attemptTimeout: 2_000 },
            lookupCache: { ttl: 10_000, staleIfError: 600_000 },
          }),
        }),
        PortalModule.register(options, tour),
      ],
      controllers: [BoothController, EventController, PeopleController],
    };
  }
}
