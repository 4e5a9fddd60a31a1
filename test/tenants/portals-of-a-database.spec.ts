/** The tenants of docs/tenants.md that are in a database, as they are. */
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { Test } from '@nestjs/testing';
import { Controller, Get, UseGuards, type DynamicModule, type INestApplication } from '@nestjs/common';
import { parseEnv } from 'node:util';
import pg from 'pg';
import request from 'supertest';
import {
  CurrentExhibitors,
  ExhibitorGuard,
  ExhibitorIdentityGuard,
  TenantRegistry,
  type Exhibitor,
} from '../../lib/index.js';
import { bodyOf, signIn } from '../guards/signed-in.js';
import { namedSnippets } from '../structure/readme.js';
import { describeWithPostgres, PostgresServer } from '../support/postgres.js';
import { useSandbox } from '../support/lifetimes.js';
import { freePort } from '../support/server.js';
import { loadSnippets } from '../support/snippets.js';
import { Visitor } from '../support/visitor.js';

const sandbox = await useSandbox();

/** As in the README: no path names a tenant, and `routes` registers the login. */
@Controller()
class PortalController {
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
  let app: INestApplication;
  let client: pg.Client;
  let port: number;
  const before = { ...process.env };
  /** Both names are of loopback. To a browser they are two sites. */
  const HOSTS = { '127.0.0.1': 'acme', localhost: 'globex' } as const;

  beforeAll(async () => {
    [postgres, port] = await Promise.all([PostgresServer.start(path), freePort()]);
    const documented = (name: string): string =>
      namedSnippets('docs/tenants.md', name)[0].replaceAll('http://127.0.0.1:4010', sandbox.url);
    Object.assign(process.env, parseEnv(documented('portal variables')), { DATABASE_URL: postgres.url });
    const snippet = await loadSnippets<{ exhibitorModule: DynamicModule }>('tenants.md', 'database');
    client = new pg.Client({ connectionString: postgres.url });
    await client.connect();
    await client.query(documented('portal table'));
    const row = documented('portal row').replaceAll('acme.localhost:3000', `127.0.0.1:${port}`);
    await client.query(row.replaceAll('acme.localhost', '127.0.0.1'));
    const { tenantId, baseUrl, authUrl, clientId, clientSecret, login } = sandbox.tenantOptions('globex');
    const api = ['localhost', tenantId, baseUrl, authUrl, clientId];
    const redirectUri = `http://localhost:${port}/auth/callback`;
    const values = [...api, login.clientId, redirectUri, login.issuer, `${sandbox.url}/connect/jwks`];
    await client.query('INSERT INTO portal VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)', values);
    const secrets = {
      API_SECRET_OF_globex_api: clientSecret,
      LOGIN_SECRET_OF_globex_web: login.clientSecret,
    };
    Object.assign(process.env, secrets);
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
    await postgres?.stop();
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

  it('have the routes of the login, and a schema that shows no addresses', async () => {
    const visitor = await signIn(sandbox, { url: `http://127.0.0.1:${port}` });
    expect((await visitor.visit(`http://127.0.0.1:${port}/auth/me`)).status).toBe(200);
    const mine = await visitor.visit(`http://127.0.0.1:${port}/events/world-2026/mine`);
    const shown = bodyOf<object[]>(mine).flatMap(Object.keys);
    expect([shown.length, new Set(shown)]).toEqual([6, new Set(['id', 'name'])]);
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
