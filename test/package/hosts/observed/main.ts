import { types } from 'node:util';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { createObserveModule } from '@nestjs/observe';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { TokenService } from 'nestjs-exhibitor';
import { AppModule } from './app.module.js';

const { ObserveModule, ObserveInstrument } = createObserveModule();

@Module({
  imports: [
    // Nothing listens there: reports are dropped.
    ObserveModule.forRoot({ appKey: '', appSecret: '', serviceId: 'host', endpoint: 'http://127.0.0.1:9' }),
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
