import { Module, type INestApplication } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { AssetsController } from '../pages/assets.controller.js';
import { useViews, Views } from '../pages/views.js';
import { MirrorAppModule, type MirrorAppOptions } from './mirror-app.module.js';

const timeFormat = new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeStyle: 'medium' });
const FORMATS = { formatTime: (value: Date) => timeFormat.format(value) };

@Module({})
class MirrorApp {}

@Module({ controllers: [AssetsController] })
class AssetsModule {}

/** Creates the application. The caller calls `listen` and `close`. */
export async function createMirrorApp(options: MirrorAppOptions): Promise<INestApplication> {
  // Before the page of a tenant, whose route takes any name.
  const imports = [AssetsModule, MirrorAppModule.register(options)];
  const app = await NestFactory.create(
    { module: MirrorApp, imports },
    { logger: ['warn', 'error', 'fatal'], abortOnError: false },
  );
  useViews(app, new Views('mirror/views', () => FORMATS));
  return app;
}
