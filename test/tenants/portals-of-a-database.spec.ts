/** The tenants of docs/tenants.md that are in a database, as they are. */
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { Test } from '@nestjs/testing';
import {
  Controller,
  Get,
  Redirect,
  UseGuards,
  type DynamicModule,
  type INestApplication,
} from '@nestjs/common';
import pg from 'pg';
import request from 'supertest';
import {
  CurrentExhibitors,
  CurrentIdentity,
  ExhibitorCallbackGuard,
  ExhibitorGuard,
  ExhibitorIdentityGuard,
  ExhibitorLoginGuard,
  TenantRegistry,
  type Exhibitor,
  type ExhibitorIdentity,
} from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { bodyOf, signIn } from '../guards/signed-in.js';
import { COOKIE_SECRET } from '../support/host.js';
import { describeWithPostgres, PostgresServer } from '../support/postgres.js';
import { startSandbox } from '../support/sandbox.js';
import { freePort } from '../support/server.js';
import { loadSnippets } from '../support/snippets.js';
import { Visitor } from '../support/visitor.js';

/** As in the README: no path names a tenant. */
@Controller()
class PortalController {
  @Get('auth/login')
  @UseGuards(ExhibitorLoginGuard)
  login(): void {}

  @Get('auth/callback')
  @UseGuards(ExhibitorCallbackGuard)
  @Redirect('/', 303)
  callback(@CurrentIdentity() identity: ExhibitorIdentity) {
    return { url: identity.returnTo ?? '/' };
  }

  @Get('me')
  @UseGuards(ExhibitorIdentityGuard)
  me(): object {
    return {};
  }

  @Get('events/:eventId/mine')
  @UseGuards(ExhibitorGuard)
  mine(@CurrentExhibitors() exhibitors: Exhibitor[]) {
    return exhibitors;
  }
}

describeWithPostgres('tenants by host name from a database', (path) => {
  let postgres: PostgresServer;
  let sandbox: ExhibitorSandbox;
  let app: INestApplication;
  let client: pg.Client;
  let port: number;
  const before = { ...process.env };
  /** Both names are of loopback. To a browser they are two sites. */
  const HOSTS = { '127.0.0.1': 'acme', localhost: 'globex' } as const;

  beforeAll(async () => {
    [postgres, sandbox, port] = await Promise.all([PostgresServer.start(path), startSandbox(), freePort()]);
    Object.assign(process.env, {
      DATABASE_URL: postgres.url,
      COOKIE_SECRET,
      ALLOWED_ORIGINS: sandbox.url,
    });
    const snippet = await loadSnippets<{ PORTAL_TABLE: string; exhibitorModule: DynamicModule }>(
      'tenants.md',
      'database',
    );
    client = new pg.Client({ connectionString: postgres.url });
    await client.connect();
    await client.query(snippet.PORTAL_TABLE);
    for (const [hostName, key] of Object.entries(HOSTS)) {
      const { tenantId, baseUrl, authUrl, clientId, clientSecret, login } = sandbox.tenantOptions(key);
      await client.query('INSERT INTO portal VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)', [
        hostName,
        tenantId,
        baseUrl,
        authUrl,
        clientId,
        login.clientId,
        `http://${hostName}:${port}/auth/callback`,
        login.issuer,
        `${sandbox.url}/connect/jwks`,
      ]);
      process.env[`API_SECRET_OF_${clientId}`] = String(clientSecret);
      process.env[`LOGIN_SECRET_OF_${login.clientId}`] = String(login.clientSecret);
    }
    const module = await Test.createTestingModule({
      imports: [snippet.exhibitorModule],
      controllers: [PortalController],
    }).compile();
    app = module.createNestApplication({ logger: ['fatal'], forceCloseConnections: true });
    await app.listen(port);
  });
  afterAll(async () => {
    await app?.close();
    await client?.end();
    process.env = before;
    await Promise.all([postgres?.stop(), sandbox?.stop()]);
  });

  it('are logged in apart, each by its own client and with its own exhibitors', async () => {
    const visitor = new Visitor();
    for (const [hostName, key] of Object.entries(HOSTS)) {
      await signIn(sandbox, { url: `http://${hostName}:${port}` }, 'olga.one', {}, visitor);
      const mine = await visitor.visit(`http://${hostName}:${port}/events/world-2026/mine`);
      const own = sandbox
        .exhibitors('world-2026', key)
        .filter(({ contactEmails }) => contactEmails.includes('olga.one@example.com'));
      expect(bodyOf<{ id: string }[]>(mine).map(({ id }) => id)).toEqual(own.map(({ id }) => id));
    }
    expect((await visitor.visit(`http://127.0.0.1:${port}/me`)).status).toBe(200);
  });

  it('are unknown by any other name, also by one that is no name', async () => {
    for (const host of ['unknown.example.com', "x'; DROP TABLE portal; --", 'x'.repeat(200)]) {
      await request(`http://127.0.0.1:${port}`).get('/me').set('Host', host).expect(404);
    }
  });

  it('follow a change of their row', async () => {
    const tenants = app.get(TenantRegistry);
    await client.query("UPDATE portal SET tenant_id = 'another' WHERE host_name = 'localhost'");
    expect((await tenants.get('localhost')).tenantId).not.toBe('another');
    tenants.forget('localhost');
    expect((await tenants.get('localhost')).tenantId).toBe('another');
  });
});
