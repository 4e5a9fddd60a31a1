/** The work behind `tokens.mjs`. Argument: the address of the stub. */
import { serveVariant } from './harness.mjs';

const [stub] = process.argv.slice(2);
await import('reflect-metadata');
const { NestFactory } = await import('@nestjs/core');
const { ExhibitorModule, ExhibitorsService, TokenService } = await import('../../dist/index.js');
const { firstValueFrom } = await import('rxjs');

const tenant = (key) => ({
  tenantId: `tenant-${key}`,
  baseUrl: stub,
  authUrl: stub,
  clientId: `client-${key}`,
  clientSecret: `secret-of-${key}`,
});
const appWith = (options) =>
  NestFactory.createApplicationContext(ExhibitorModule.forRoot(options), { logger: false });
const settle = async () => {
  for (let turn = 0; turn < 5; turn += 1) {
    globalThis.gc();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return process.memoryUsage().heapUsed;
};

const works = {
  async cached({ calls }) {
    tokens ??= (await appWith({ tenant: tenant('only') })).get(TokenService);
    await tokens.getToken();
    return () => callInARow(tokens, calls);
  },

  async burst({ calls }) {
    const app = await appWith({ tenant: tenant('burst') });
    const burst = app.get(TokenService);
    const before = await posts();
    await Promise.all(Array.from({ length: calls }, () => burst.getToken()));
    const after = await posts();
    await app.close();
    return { posts: after - before };
  },

  /** Tenants that come from a source, so that what the host itself holds of them is not counted. */
  async heap({ tenants }) {
    const app = await appWith({
      tenants: { find: (key) => tenant(key) },
      allowedOrigins: () => true,
      tenantCache: { max: tenants + 1_000 },
    });
    const service = app.get(TokenService);
    const exhibitors = app.get(ExhibitorsService);
    const use = async (from, to) => {
      for (let index = from; index < to; index += 1) {
        await service.getToken({ tenant: `key-${index}` });
        await firstValueFrom(exhibitors.list('bench-2026', { tenant: `key-${index}` }));
      }
    };
    await use(0, 500);
    const before = await settle();
    await use(500, 500 + tenants);
    const after = await settle();
    const { accessToken } = await service.getToken({ tenant: 'key-0' });
    await app.close();
    return { bytesPerTenant: (after - before) / tenants, bytesPerToken: accessToken.length };
  },
};

let tokens;

async function callInARow(service, calls) {
  for (let call = 0; call < calls; call += 1) {
    await service.getToken();
  }
  return { calls };
}

async function posts() {
  return Number(await (await fetch(`${stub}/tokens`)).text());
}

serveVariant(async (question) => {
  const done = await works[question.work](question);
  return typeof done === 'function' ? done() : done;
});
