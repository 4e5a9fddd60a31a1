import { Module, type DynamicModule } from '@nestjs/common';
import { ExhibitorModule } from 'nestjs-exhibitor';
import { AuthController } from './auth.controller.js';
import { BoothController } from './booth/booth.controller.js';
import { boothSchema } from './booth/booth.schema.js';
import { EventController } from './events/event.controller.js';
import { PeopleController } from './people/people.controller.js';
import { PortalModule } from './pages/portal.module.js';
import type { SampleOptions } from './sample-options.js';

@Module({})
export class AppModule {
  static register(options: SampleOptions): DynamicModule {
    const { tenants, secrets } = options;
    return {
      module: AppModule,
      imports: [
        ExhibitorModule.forRootAsync({
          isGlobal: true,
          useFactory: () => ({
            tenants,
            resolveTenant: (request) => request.params['tenant'],
            secrets,
            logoutCheck: { provider: true },
            exhibitorSchema: boothSchema,
            http: { attemptTimeout: 2_000 },
            lookupCache: { ttl: 10_000, staleIfError: 600_000 },
          }),
        }),
        PortalModule.register(options),
      ],
      controllers: [AuthController, BoothController, EventController, PeopleController],
    };
  }
}
