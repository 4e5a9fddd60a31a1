import { afterEach, describe, expect, it } from '@jest/globals';
import type { INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExhibitorModule, TokenService } from '../../lib/index.js';
import { startServer, type TestServer } from '../support/server.js';
import { pause } from '../support/wait.js';

let app: INestApplicationContext;
let server: TestServer;
afterEach(async () => {
  await app?.close();
  await server?.stop();
});

describe('a token of a tenant that a source finds slowly', () => {
  it('comes or fails within one deadline, over the search and the token request together', async () => {
    server = await startServer(() => undefined);
    const find = async () => {
      await pause(900);
      return {
        tenantId: 'acme',
        baseUrl: server.url,
        authUrl: server.url,
        clientId: 'acme',
        clientSecret: 'acme',
      };
    };
    const module = ExhibitorModule.forRoot({
      tenants: { find },
      allowedOrigins: [server.url],
      http: { deadline: 1_000, attempts: 1 },
    });
    app = await NestFactory.createApplicationContext(module, { logger: false });
    const began = performance.now();
    const failure = app.get(TokenService).getToken({ tenant: 'acme' });
    await expect(failure).rejects.toMatchObject({ code: 'deadline_exceeded', tenant: 'acme' });
    expect(performance.now() - began).toBeLessThan(1_700);
  });
});
