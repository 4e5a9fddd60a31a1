import { Module, type DynamicModule } from '@nestjs/common';
import { APP_FILTER } from '@nestjs/core';
import { ExhibitorModule } from 'nestjs-exhibitor';
import { AuthController } from './auth.controller.js';
import { BoothController } from './booth/booth.controller.js';
import { boothSchema } from './booth/booth.schema.js';
import { EventController } from './events/event.controller.js';
import { EventSizes } from './events/event-sizes.service.js';
import { HomeController } from './events/home.controller.js';
import { ProblemFilter } from './pages/problem.filter.js';
import { SAMPLE_OPTIONS, type SampleOptions } from './sample-options.js';

@Module({})
export class AppModule {
  static register(options: SampleOptions): DynamicModule {
    const { tenant, tenantOptions, secrets } = options;
    return {
      module: AppModule,
      imports: [
        ExhibitorModule.forRootAsync({
          isGlobal: true,
          useFactory: () => ({
            tenants: { [tenant]: tenantOptions },
            resolveTenant: (request) => request.params['tenant'] ?? tenant,
            secrets,
            exhibitorSchema: boothSchema,
          }),
        }),
      ],
      controllers: [HomeController, AuthController, BoothController, EventController],
      providers: [
        { provide: SAMPLE_OPTIONS, useValue: options },
        { provide: APP_FILTER, useClass: ProblemFilter },
        EventSizes,
      ],
    };
  }
}
