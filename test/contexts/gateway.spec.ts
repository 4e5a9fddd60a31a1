import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Module, UseGuards, type INestApplication } from '@nestjs/common';
import { APP_GUARD, NestFactory } from '@nestjs/core';
import { WsAdapter } from '@nestjs/platform-ws';
import { SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { WebSocket } from 'undici';
import { AllowAnonymous, ExhibitorGuard, ExhibitorIdentityGuard, ExhibitorModule } from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { COOKIE_SECRET } from '../support/host.js';
import { startSandbox } from '../support/sandbox.js';
import { freePort } from '../support/server.js';
import { ErrorLog } from './error-log.js';

@WebSocketGateway()
@AllowAnonymous()
class MessageGateway {
  @SubscribeMessage('works')
  works(): object {
    return { event: 'works', data: 'done' };
  }

  @SubscribeMessage('guarded')
  @UseGuards(ExhibitorGuard)
  guarded(): object {
    return { event: 'guarded', data: 'the guard let it pass' };
  }

  @SubscribeMessage('closed')
  @AllowAnonymous(false)
  closed(): object {
    return { event: 'closed', data: 'the global guard let it pass' };
  }
}

let sandbox: ExhibitorSandbox;
let app: INestApplication;
let socket: WebSocket;
const logger = new ErrorLog();

beforeAll(async () => {
  sandbox = await startSandbox();

  @Module({
    imports: [ExhibitorModule.forRoot({ tenant: sandbox.tenantOptions('acme'), secrets: [COOKIE_SECRET] })],
    providers: [MessageGateway, { provide: APP_GUARD, useClass: ExhibitorIdentityGuard }],
  })
  class AppModule {}

  app = await NestFactory.create(AppModule, { logger, abortOnError: false });
  app.useWebSocketAdapter(new WsAdapter(app));
  const port = await freePort();
  await app.listen(port, '127.0.0.1');
  socket = new WebSocket(`ws://127.0.0.1:${port}`);
  await new Promise((resolve, reject) => {
    socket.addEventListener('open', resolve, { once: true });
    socket.addEventListener('error', reject, { once: true });
  });
});
afterAll(async () => {
  socket?.close();
  await app?.close();
  await sandbox?.stop();
});

/** The next message of the gateway; none within the time limit of the test fails it. */
function ask(event: string): Promise<unknown> {
  const answer = new Promise<unknown>((resolve) => {
    socket.addEventListener('message', ({ data: text }) => resolve(JSON.parse(String(text))), { once: true });
  });
  socket.send(JSON.stringify({ event, data: '' }));
  return answer;
}

describe('a gateway', () => {
  it('passes a global guard with @AllowAnonymous()', async () => {
    expect(await ask('works')).toEqual({ event: 'works', data: 'done' });
  });

  it.each([
    ['guarded', 'ExhibitorGuard'],
    ['closed', 'ExhibitorIdentityGuard'],
  ])('that is %s is refused: the error names %s and the decorator', async (event, guard) => {
    logger.messages.length = 0;
    expect(await ask(event)).toMatchObject({
      event: 'exception',
      data: { status: 'error', message: 'Internal server error' },
    });
    expect(logger.messages.join('\n')).toContain(
      `${guard} serves HTTP and GraphQL, not 'ws'. A handler with @AllowAnonymous() passes a global guard`,
    );
  });
});
