/**
 * A host with a guarded route. Arguments: platform, kind of session, address of the stub. Sends its port, and answers each message
 * with its CPU time.
 */
import { createPublicKey } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Controller, Get, Req, Res, UseGuards } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { ExhibitorGuard, ExhibitorModule } from '../../dist/index.js';
import { Sealer } from '../../dist/store/sealer.service.js';
import { peers, SECRET } from './guards-peers.mjs';
import { tenantAt } from './harness.mjs';

const [platform, kind, stub] = process.argv.slice(2);
const isFastify = platform === 'Fastify';
const peer = peers[kind];
const ISSUER = 'http://127.0.0.1/provider';
const DAY = 86_400_000;

/** Its cookie has 1.4 kB, as that of a provider with the usual claims. */
function identityOf(user) {
  return {
    id: `login-${user}`.padEnd(43, '0'),
    issuer: ISSUER,
    subject: `subject-of-user-${user}`,
    email: 'ada.lovelace@example.com',
    claims: {
      name: 'Ada Lovelace',
      given_name: 'Ada',
      family_name: 'Lovelace',
      preferred_username: `ada-${user}`,
      organisation: 'Analytical Engines of London, Limited',
      roles: Array.from({ length: 12 }, (_, index) => `exhibitor:booth-staff:${index}`),
      auth_time: Math.floor(Date.now() / 1000),
    },
    tenant: 'default',
    tenantId: 'bench',
    clientId: 'bench-web',
    redirectUri: 'http://127.0.0.1/callback',
    expiresAt: Date.now() + DAY,
  };
}

class BenchController {
  bare() {
    return { ok: true };
  }

  mine() {
    return { ok: true };
  }

  async login(request, response) {
    const identity = identityOf(request.query.user);
    if (peer === undefined) {
      const sealed = await app
        .get(Sealer, { strict: false })
        .seal('identity', { identity, endsAt: Date.now() + DAY }, DAY);
      response.header('set-cookie', `exhibitor-identity=${sealed}`);
    } else {
      await peer.login(request, response, identity);
    }
    return response.send({ ok: true });
  }
}

function route(name, ...decorators) {
  const property = Object.getOwnPropertyDescriptor(BenchController.prototype, name);
  decorators.forEach((decorate) => decorate(BenchController.prototype, name, property));
}

route('bare', Get('bare/:eventId'));
route('mine', Get('mine/:eventId'), UseGuards(peer === undefined ? ExhibitorGuard : peer.guard));
Req()(BenchController.prototype, 'login', 0);
Res()(BenchController.prototype, 'login', 1);
route('login', Get('login'));
Controller()(BenchController);

const login = {
  clientId: 'bench-web',
  redirectUri: 'http://127.0.0.1/callback',
  issuer: ISSUER,
  keys: createPublicKey(readFileSync(new URL('../support/keys/provider.pem', import.meta.url))).export({
    type: 'spki',
    format: 'pem',
  }),
};
const module = ExhibitorModule.forRoot({
  tenant: { ...tenantAt(stub), login },
  secrets: [SECRET],
  session: kind === 'host' ? 'host' : 'cookie',
  lookupCache: { ttl: 3_600_000 },
});
const root = { ...module, controllers: [BenchController] };
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
  const fastify = app.getHttpAdapter().getInstance();
  fastify.decorateRequest('user', null);
  fastify.addHook('onRequest', (request, _reply, done) => done(setUser(request)));
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
