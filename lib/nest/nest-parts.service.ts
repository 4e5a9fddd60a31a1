import { Inject, Injectable, Logger, Optional } from '@nestjs/common';
import { ApplicationConfig, BaseExceptionFilter, HttpAdapterHost, ModulesContainer } from '@nestjs/core';
import { secondNest } from '../config/installed-packages.js';

/**
 * What Nest itself provides. Under the tokens of another copy of Nest than that of the application there is nothing, and every exception
 * of a guard would be answered with 500.
 */
@Injectable()
export class NestParts {
  readonly modules: ModulesContainer;
  readonly config: ApplicationConfig;
  readonly adapterHost: HttpAdapterHost;

  /** @throws Error where this package loads another copy of Nest than the application */
  constructor(
    @Optional() @Inject(ModulesContainer) modules?: ModulesContainer,
    @Optional() @Inject(ApplicationConfig) config?: ApplicationConfig,
    @Optional() @Inject(HttpAdapterHost) adapterHost?: HttpAdapterHost,
  ) {
    if (modules === undefined || config === undefined || adapterHost === undefined) {
      throw secondNest();
    }
    // The logger of this filter is one of the `@nestjs/common` that `@nestjs/core` loads.
    if (!(BaseExceptionFilter['logger'] instanceof Logger)) {
      throw secondNest();
    }
    this.modules = modules;
    this.config = config;
    this.adapterHost = adapterHost;
  }
}
