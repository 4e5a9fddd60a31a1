/** A host whose tenants come from a source. Argument: the address of the stub. Answers each use with the bytes of its heap. */
import { Controller, Get, UseGuards } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { firstValueFrom } from 'rxjs';
import {
  ExhibitorCallbackGuard,
  ExhibitorIdentityGuard,
  ExhibitorLoginGuard,
  ExhibitorModule,
  ExhibitorsService,
  TenantRegistry,
  TokenService,
} from '../../dist/index.js';
import { SECRET, signedToken } from './guards-credentials.mjs';

const [stub] = process.argv.slice(2);
const guards = { login: ExhibitorLoginGuard, callback: ExhibitorCallbackGuard, me: ExhibitorIdentityGuard };

class HeapController {
  login() {}
  callback() {}
  me() {}
}
for (const [name, guard] of Object.entries(guards)) {
  const property = Object.getOwnPropertyDescriptor(HeapController.prototype, name);
  [Get(name), UseGuards(guard)].forEach((decorate) => decorate(HeapController.prototype, name, property));
}
Controller()(HeapController);

const optionsOf = (key) => ({
  tenantId: `tenant-${key}`,
  baseUrl: stub,
  authUrl: stub,
  clientId: `client-${key}`,
  clientSecret: `secret-of-${key}`,
  login: {
    clientId: `web-${key}`,
    redirectUri: 'http://127.0.0.1/callback',
    issuer: stub,
    keys: `${stub}/keys`,
    audience: { idToken: `web-${key}`, accessToken: 'bench-api' },
    authorizedParties: [`web-${key}`],
  },
});
/** As a source that reads them from a database: no tenant has a text of another, and none is a chain of parts. */
const find = (key) => JSON.parse(JSON.stringify(optionsOf(key)));

const root = ExhibitorModule.forRoot({
  tenants: { find },
  allowedOrigins: () => true,
  tenantCache: { max: 20_000, ttl: 3_600_000 },
  lookupCache: { max: 20_000, ttl: 3_600_000 },
  resolveTenant: ({ query }) => query.tenant,
  session: ['cookie', 'bearer'],
  secrets: [SECRET],
});
const app = await NestFactory.create({ ...root, controllers: [HeapController] }, { logger: false });
await app.listen(0, '127.0.0.1');
const address = await app.getUrl();
const tokens = app.get(TokenService);
const exhibitors = app.get(ExhibitorsService);

const uses = {
  options: (key) => app.get(TenantRegistry).get(key),
  token: (key) => tokens.getToken({ tenant: key }),
  page: (key) => firstValueFrom(exhibitors.list('bench-2026', { tenant: key })),
  lookup: (key) => firstValueFrom(exhibitors.lookup('bench-2026', `${key}@example.com`, { tenant: key })),
  async login(key) {
    const started = await get(`/login?tenant=${key}`);
    const asked = new URL(started.headers.get('location')).searchParams;
    const code = JSON.stringify({ ...claimsOf(key), aud: `web-${key}`, nonce: asked.get('nonce') });
    const query = new URLSearchParams({ code, state: asked.get('state'), iss: stub });
    const cookie = started.headers.getSetCookie().map((line) => line.split(';', 1)[0]);
    await get(`/callback?${query}`, { cookie: cookie.join('; ') });
  },
  async bearer(key) {
    const claims = { ...claimsOf(key), aud: 'bench-api', client_id: `web-${key}` };
    await get(`/me?tenant=${key}`, { authorization: `Bearer ${signedToken('at+jwt', claims)}` });
  },
};

function claimsOf(key) {
  const now = Math.floor(Date.now() / 1000);
  return { iss: stub, sub: `user-${key}`, email: `${key}@example.com`, iat: now, exp: now + 3_600 };
}

async function get(path, headers) {
  const reply = await fetch(address + path, { headers, redirect: 'manual' });
  if (reply.status >= 400) {
    throw new Error(`${path.slice(0, 20)} answered ${reply.status}: ${await reply.text()}`);
  }
  await reply.arrayBuffer();
  return reply;
}

async function heapUsed() {
  for (let turn = 0; turn < 5; turn += 1) {
    globalThis.gc();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return process.memoryUsage().heapUsed;
}

process.on('message', async ({ use, from, to }) => {
  for (let index = from; index < to; index += 1) {
    await uses[use](`key-${index}`);
  }
  process.send(await heapUsed());
});
process.on('disconnect', () => process.exit());
process.send('ready');
