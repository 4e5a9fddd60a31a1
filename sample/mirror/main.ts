import { join } from 'node:path';
import { Module, type INestApplication } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Eta } from 'eta';
import { AssetsController } from '../pages/assets.controller.js';
import { SOURCE } from '../pages/views.js';
import { MirrorAppModule, type MirrorAppOptions } from './mirror-app.module.js';

const numberFormat = new Intl.NumberFormat('en');
const timeFormat = new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeStyle: 'medium' });
const FORMATS = {
  formatNumber: (value: number) => numberFormat.format(value),
  formatTime: (value: Date) => timeFormat.format(value),
};

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
    {
      logger: ['warn', 'error', 'fatal'],
      abortOnError: false,
    },
  );
  const eta = new Eta({ views: join(SOURCE, 'mirror/views'), cache: true, autoEscape: true });
  const adapter = app.getHttpAdapter();
  adapter.render = (response: unknown, view: string, model: object) => {
    adapter.setHeader(response, 'Content-Type', 'text/html; charset=utf-8');
    return adapter.reply(response, eta.render(`./${view}`, { ...FORMATS, ...model }));
  };
  return app;
}
