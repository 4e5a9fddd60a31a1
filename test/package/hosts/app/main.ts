import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { AppModule } from './app.module.js';

async function main(): Promise<void> {
  const adapter = process.env['ADAPTER'] === 'fastify' ? new FastifyAdapter() : new ExpressAdapter();
  const app = await NestFactory.create(AppModule, adapter as ExpressAdapter, { logger: ['error', 'warn'] });
  app.enableShutdownHooks();
  await app.listen(Number(process.env['PORT']), '127.0.0.1');
  console.log('ready');
}

void main();
