import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Controller, Module, UseGuards, type INestMicroservice } from '@nestjs/common';
import { APP_GUARD, NestFactory } from '@nestjs/core';
import {
  ClientProxyFactory,
  MessagePattern,
  Transport,
  type ClientProxy,
  type MicroserviceOptions,
} from '@nestjs/microservices';
import { firstValueFrom } from 'rxjs';
import {
  AllowAnonymous,
  CurrentIdentity,
  ExhibitorGuard,
  ExhibitorIdentityGuard,
  ExhibitorModule,
} from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { COOKIE_SECRET } from '../support/host.js';
import { startSandbox } from '../support/sandbox.js';
import { freePort } from '../support/server.js';
import { ErrorLog } from './error-log.js';

@Controller()
@AllowAnonymous()
class MessageController {
  @MessagePattern('works')
  works(): string {
    return 'done';
  }

  @MessagePattern('guarded')
  @UseGuards(ExhibitorGuard)
  guarded(): string {
    return 'the guard let it pass';
  }

  @MessagePattern('guarded by identity')
  @UseGuards(ExhibitorIdentityGuard)
  guardedByIdentity(): string {
    return 'the guard let it pass';
  }

  @MessagePattern('closed')
  @AllowAnonymous(false)
  closed(): string {
    return 'the global guard let it pass';
  }

  @MessagePattern('decorated')
  decorated(@CurrentIdentity() identity: unknown): unknown {
    return identity;
  }
}

let sandbox: ExhibitorSandbox;
let service: INestMicroservice;
let client: ClientProxy;
const logger = new ErrorLog();

beforeAll(async () => {
  sandbox = await startSandbox();

  @Module({
    imports: [ExhibitorModule.forRoot({ tenant: sandbox.tenantOptions('acme'), secrets: [COOKIE_SECRET] })],
    controllers: [MessageController],
    providers: [{ provide: APP_GUARD, useClass: ExhibitorIdentityGuard }],
  })
  class AppModule {}

  const options = { host: '127.0.0.1', port: await freePort() };
  service = await NestFactory.createMicroservice<MicroserviceOptions>(AppModule, {
    transport: Transport.TCP,
    options,
    logger,
    abortOnError: false,
  });
  await service.listen();
  client = ClientProxyFactory.create({ transport: Transport.TCP, options });
  await client.connect();
});
afterAll(async () => {
  client?.close();
  await service?.close();
  await sandbox?.stop();
});

const ask = (pattern: string): Promise<unknown> => firstValueFrom(client.send<unknown>(pattern, ''));

describe('a message handler over TCP', () => {
  it('passes a global guard with @AllowAnonymous()', async () => {
    expect(await ask('works')).toBe('done');
  });

  it.each([
    ['guarded', 'ExhibitorGuard'],
    ['guarded by identity', 'ExhibitorIdentityGuard'],
    ['closed', 'ExhibitorIdentityGuard'],
    ['decorated', '@CurrentIdentity()'],
  ])('cannot be %s: the error names %s and what it serves', async (pattern, name) => {
    logger.messages.length = 0;
    await expect(ask(pattern)).rejects.toEqual({ status: 'error', message: 'Internal server error' });
    expect(logger.messages.join('\n')).toContain(`${name} serves HTTP and GraphQL, not 'rpc'`);
  });
});
