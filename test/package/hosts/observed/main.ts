import { types } from 'node:util';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { createObserveModule } from '@nestjs/observe';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { TokenService } from 'nestjs-exhibitor';
import { AppModule } from './app.module.js';

// As docs/observability.md tells, and `ignore` below.
const { ObserveModule, ObserveInstrument } = createObserveModule({
  skipInstrumentation: (instance) => Object(instance).constructor?.name === 'Clock',
});

@Module({
  imports: [
    ObserveModule.forRoot({
      appKey: 'key',
      appSecret: 'secret',
      serviceId: 'host',
      flushInterval: 1_000,
      endpoint: process.env['COLLECTOR'] ?? '',
      outgoing: { http: { ignore: (url) => url.includes('/contactEmail/') } },
    }),
    AppModule,
  ],
})
class ObservedModule {}

async function main(): Promise<void> {
  const adapter = process.env['ADAPTER'] === 'fastify' ? new FastifyAdapter() : new ExpressAdapter();
  const app = await NestFactory.create(ObservedModule, adapter as ExpressAdapter, {
    instrument: ObserveInstrument,
    logger: ['error', 'warn'],
  });
  if (!types.isProxy(app.get(TokenService, { strict: false }))) {
    throw new Error('the providers are not instrumented');
  }
  app.enableShutdownHooks();
  await app.listen(Number(process.env['PORT']), '127.0.0.1');
}

void main();
