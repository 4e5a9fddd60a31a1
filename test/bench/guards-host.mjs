/**
 * A host with guarded routes. Arguments: platform, kind of host, store, address of the stub, port of Redis. Sends its port, and
 * answers each message with its CPU time.
 */
import { createPublicKey } from 'node:crypto';
import { Controller, Get, Req, Res, UseGuards } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { ExhibitorGuard, ExhibitorIdentityGuard, ExhibitorModule } from '../../dist/index.js';
import { identityOf, ISSUER, PRIVATE_KEY, SECRET } from './guards-credentials.mjs';
import { peers } from './guards-peers.mjs';
import { stores } from './guards-stores.mjs';

const [platform, kind, store, stub, redisPort] = process.argv.slice(2);
const isFastify = platform === 'Fastify';
const peer = peers[kind];

class BenchController {
  bare() {
    return { ok: true };
  }

  identity() {
    return { ok: true };
  }

  mine() {
    return { ok: true };
  }

  /** Only for hosts that have a session of their own. */
  async login(request, response) {
    await peer.login(request, response, identityOf(request.query.user));
    return response.send({ ok: true });
  }
}

function route(name, ...decorators) {
  const property = Object.getOwnPropertyDescriptor(BenchController.prototype, name);
  decorators.forEach((decorate) => decorate(BenchController.prototype, name, property));
}

route('bare', Get('bare/:eventId'));
route('identity', Get('identity/:eventId'), UseGuards(ExhibitorIdentityGuard));
route('mine', Get('mine/:eventId'), UseGuards(peer === undefined ? ExhibitorGuard : peer.guard));
Req()(BenchController.prototype, 'login', 0);
Res()(BenchController.prototype, 'login', 1);
route('login', Get('login'));
Controller()(BenchController);

async function exhibitorModule() {
  const tenant = {
    tenantId: 'bench-tenant',
    baseUrl: stub,
    authUrl: stub,
    clientId: 'bench',
    clientSecret: 'bench-secret',
    login: {
      clientId: 'bench-web',
      redirectUri: 'http://127.0.0.1/callback',
      issuer: ISSUER,
      keys: createPublicKey(PRIVATE_KEY).export({ type: 'spki', format: 'pem' }),
      audience: { idToken: 'bench-web', accessToken: 'bench-api' },
      authorizedParties: ['bench-web'],
    },
  };
  return ExhibitorModule.forRoot({
    tenant,
    secrets: [SECRET],
    session: kind === 'cookie, bearer' ? ['cookie', 'bearer'] : sessionOf(kind),
    lookupCache: { ttl: 3_600_000 },
    store: await stores[store]?.(redisPort),
  });
}

function sessionOf(name) {
  return ['host', 'bearer'].includes(name) ? name : 'cookie';
}

const root = { ...(await exhibitorModule()), controllers: [BenchController] };
const app = await NestFactory.create(root, ...(isFastify ? [new FastifyAdapter()] : []), { logger: false });
// In every host, so that all pay for it: what reads the session of a host makes a new object for each request.
const users = new Map();
const setUser = (request) => {
  const name = request.headers['x-user'];
  if (name !== undefined) {
    const user = users.get(name) ?? identityOf(name);
    users.set(name, user);
    request.user = { ...user, claims: { ...user.claims } };
  }
};
if (isFastify) {
  app.getHttpAdapter().getInstance().decorateRequest('user', null);
  app
    .getHttpAdapter()
    .getInstance()
    .addHook('onRequest', (request, _reply, done) => done(setUser(request)));
} else {
  app.use((request, _response, next) => next(setUser(request)));
}
await peer?.prepare(app);
await app.listen(0, '127.0.0.1');
const server = app.getHttpServer();
server.keepAliveTimeout = 0;

// No forced collection before a measurement: V8 then drops optimized code, and the next thousands of requests are slow.
process.on('message', () => process.send(process.cpuUsage()));
process.on('disconnect', () => process.exit());
process.send(server.address().port);
