/** One process of the isolation proof: a host with HTTP, whose tenants come from a source. Compiled, in plain Node. */
import { Module, type INestApplication } from '@nestjs/common';
import { createClient } from 'redis';
import { firstValueFrom } from 'rxjs';
import {
  ExhibitorModule,
  ExhibitorsService,
  isExhibitorError,
  TenantRegistry,
  TokenService,
  type Exhibitor,
  type TenantOptions,
} from '../../lib/index.js';
import { RedisSharedStore } from '../../lib/redis/index.js';
import { BoothController } from '../support/booth.controller.js';
import { createApp } from '../support/host.js';
import { obey } from './obey.js';
import type { IsolationCall, IsolationCommands, IsolationResult } from './isolation-commands.js';

const tenants = new Map<string, TenantOptions>();
let app: INestApplication | undefined;
let closeRedis = (): void => undefined;

function running(): INestApplication {
  if (app === undefined) {
    throw new Error('this process was not started');
  }
  return app;
}

/** Each request names the key of its tenant in a header, or in the query. */
function tenantOf({ headers, query }: { headers?: object; query?: object }): string | undefined {
  const named: unknown = Reflect.get(headers ?? {}, 'x-portal') ?? Reflect.get(query ?? {}, 'portal');
  return typeof named === 'string' ? named : undefined;
}

async function call(one: IsolationCall): Promise<IsolationResult> {
  const { kind, tenant, eventId, contactEmail, abortAfter } = one;
  const signal = abortAfter === undefined ? undefined : AbortSignal.timeout(abortAfter);
  const exhibitors = running().get<ExhibitorsService>(ExhibitorsService);
  const ids = (records: readonly Exhibitor[]): string[] => records.map(({ id }) => String(id));
  if (kind === 'token') {
    const { accessToken } = await running().get(TokenService).getToken({ tenant, signal });
    const claims: unknown = JSON.parse(Buffer.from(accessToken.split('.')[1] ?? '', 'base64url').toString());
    return { clientId: String(Reflect.get(Object(claims), 'client_id')) };
  }
  if (kind === 'list') {
    return { ids: ids((await firstValueFrom(exhibitors.list(eventId, { tenant, signal }))).data) };
  }
  const options = { tenant, signal, fresh: kind === 'fresh' };
  const found = await firstValueFrom(exhibitors.lookup(eventId, contactEmail, options));
  const isOfContact = found.every(({ contactEmails }) => {
    return Array.isArray(contactEmails) && contactEmails.includes(contactEmail);
  });
  return { ids: ids(found), isOfContact };
}

const commands: IsolationCommands = {
  async start({ kind, port, redis: url, secrets, tenants: first }) {
    for (const [key, options] of Object.entries(first)) {
      tenants.set(key, options);
    }
    const redis = createClient({ url, disableOfflineQueue: true });
    redis.on('error', () => {});
    await redis.connect();
    closeRedis = () => redis.destroy();
    const module = ExhibitorModule.forRoot({
      tenants: { find: async (key) => tenants.get(key) },
      allowedOrigins: () => true,
      resolveTenant: (request) => tenantOf(request),
      session: ['cookie', 'bearer'],
      secrets,
      logoutCheck: { provider: true },
      store: new RedisSharedStore(redis),
      // Answers expire during the proof, so that they come from the memory, the store and the service.
      lookupCache: { ttl: 3_000, staleIfError: 3_000, max: 2_000 },
      tenantCache: { ttl: 5_000 },
    });
    @Module({ imports: [module], controllers: [BoothController] })
    class HostModule {}

    app = await createApp(kind, HostModule);
    await app.listen(port, '127.0.0.1');
  },
  assign: async ({ key, options }) => void tenants.set(key, options),
  forget: async (key) => running().get(TenantRegistry).forget(key),
  invalidate: (filter) => running().get(ExhibitorsService).invalidateLookups(filter),
  run: (calls) =>
    Promise.all(
      calls.map((one) =>
        call(one).catch((error: unknown) => ({
          code: isExhibitorError(error) ? error.code : `not ours: ${String(error)}`,
        })),
      ),
    ),
  async close() {
    await app?.close();
    closeRedis();
    process.disconnect();
  },
};

obey({ ...commands });
