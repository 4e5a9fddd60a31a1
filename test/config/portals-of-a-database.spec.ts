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
  TokenService,
  type Exhibitor,
} from '../../lib/index.js';
import { bodyOf, signIn } from '../nest/signed-in.js';
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
    const { 'acme.localhost': acme } = JSON.parse(process.env['PORTAL_SECRETS'] ?? '') as Record<
      string,
      object
    >;
    const globex = { api: clientSecret, login: login.clientSecret };
    process.env['PORTAL_SECRETS'] = JSON.stringify({ '127.0.0.1': acme, localhost: globex });
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

  it('find secrets by their key alone: a row with the client of another customer gets no token of that customer', async () => {
    const tenants = app.get(TenantRegistry);
    const tokens = app.get(TokenService);
    const ofAcme = "(SELECT api_client_id FROM portal WHERE host_name = '127.0.0.1')";
    await client.query(`INSERT INTO portal SELECT 'thief', tenant_id, base_url, auth_url, ${ofAcme},
      login_client_id, redirect_uri, issuer, keys_url FROM portal WHERE host_name = 'localhost'`);
    await client.query(`UPDATE portal SET api_client_id = ${ofAcme} WHERE host_name = 'localhost'`);
    tenants.forget('localhost');
    for (const [tenant, code] of [
      ['127.0.0.1'],
      ['thief', 'token_unavailable'],
      ['localhost', 'token_rejected'],
    ]) {
      const outcome = await tokens.getToken({ tenant }).then(
        () => undefined,
        (error) => error.code,
      );
      expect([tenant, outcome]).toEqual([tenant, code]);
    }
  });

  it('have keys that are compared exactly, also where the database ignores letter case', async () => {
    const insensitive = "(provider = icu, locale = 'und-u-ks-level2', deterministic = false)";
    await client.query(`CREATE COLLATION insensitive ${insensitive}`);
    await client.query('ALTER TABLE portal ALTER host_name TYPE text COLLATE insensitive');
    const { rows } = await client.query("SELECT * FROM portal WHERE host_name = 'LOCALHOST'");
    expect(rows).toHaveLength(1);
    const tenants = app.get(TenantRegistry);
    await expect(tenants.get('LOCALHOST')).rejects.toMatchObject({ code: 'unknown_tenant' });
    expect((await tenants.get('localhost')).key).toBe('localhost');
    // Browsers send host names in lower case; other clients may not.
    await request(`http://127.0.0.1:${port}`).get('/me').set('Host', `LocalHost:${port}`).expect(401);
  });

  it('follow a change of their row', async () => {
    const tenants = app.get(TenantRegistry);
    await client.query("UPDATE portal SET tenant_id = 'another' WHERE host_name = 'localhost'");
    expect((await tenants.get('localhost')).tenantId).not.toBe('another');
    tenants.forget('localhost');
    expect((await tenants.get('localhost')).tenantId).toBe('another');
  });
});
