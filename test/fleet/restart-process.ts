/** A host of the rolling restart: compiled, in plain Node. It ends by SIGTERM. */
import { Controller, Get, Inject, Module, Param, Sse, type MessageEvent } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { concatMap, interval, map, type Observable } from 'rxjs';
import { ExhibitorModule, ExhibitorsService, type TenantOptions } from '../../lib/index.js';

/** Given in the environment as `RESTART_CONFIG`, in JSON. */
export interface RestartConfig {
  kind: 'express' | 'fastify';
  port: number;
  tenant: TenantOptions;
}

/** Sent by the process to its parent. */
export type RestartMessage = 'listening' | { accepted: number };

@Controller()
class EventController {
  constructor(@Inject(ExhibitorsService) private readonly exhibitors: ExhibitorsService) {}

  @Get('events/:eventId')
  list(@Param('eventId') eventId: string) {
    return this.exhibitors.list(eventId, { itemsPerPage: 1 });
  }

  /** Never completes. */
  @Sse('live')
  live(): Observable<MessageEvent> {
    return interval(500).pipe(
      concatMap(() => this.exhibitors.list('boutique-2026', { itemsPerPage: 1 })),
      map(({ paginationMetadata }) => ({ data: paginationMetadata })),
    );
  }
}

const { kind, port, tenant }: RestartConfig = JSON.parse(process.env['RESTART_CONFIG'] ?? '{}');

@Module({ imports: [ExhibitorModule.forRoot({ tenant })], controllers: [EventController] })
class AppModule {}

const app =
  kind === 'express'
    ? await NestFactory.create(AppModule, new ExpressAdapter(), { logger: false })
    : await NestFactory.create(AppModule, new FastifyAdapter({ return503OnClosing: false }), {
        logger: false,
      });
app.enableShutdownHooks();
await app.listen(port, '127.0.0.1');
const tell = (message: RestartMessage): unknown => process.send?.(message);
app
  .getHttpServer()
  .on('connection', ({ remotePort }: { remotePort: number }) => tell({ accepted: remotePort }));
tell('listening');
