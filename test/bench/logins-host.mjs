/** A host whose logins are started and left. Argument: address of the stub. Sends its port, and answers each message with its live heap. */
import { setTimeout } from 'node:timers/promises';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { ExhibitorModule } from '../../dist/index.js';
import { SECRET } from './guards-peers.mjs';
import { tenantAt } from './harness.mjs';

const [stub] = process.argv.slice(2);
const login = {
  clientId: 'bench-web',
  redirectUri: 'http://127.0.0.1/auth/callback',
  issuer: stub,
  keys: `${stub}/keys`,
};
const module = ExhibitorModule.forRoot({
  isGlobal: true,
  routes: 'auth',
  tenant: { ...tenantAt(stub), login },
  secrets: [SECRET],
});
const app = await NestFactory.create(module, new FastifyAdapter(), { logger: false });
await app.listen(0, '127.0.0.1');

process.on('message', async () => {
  // What ends with a request is collected in a later turn.
  for (let turn = 0; turn < 5; turn += 1) {
    await setTimeout(20);
    globalThis.gc();
  }
  process.send(process.memoryUsage().heapUsed);
});
process.on('disconnect', () => process.exit());
process.send(app.getHttpServer().address().port);
