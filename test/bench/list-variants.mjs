/** One page of an event with a cached token, in four ways. Arguments: the variant and the address of the stub. */
import { Agent as HttpAgent } from 'node:http';
import { create } from 'axios';
import { catchError, defer, firstValueFrom, from, retry, switchMap, throwError, timer } from 'rxjs';
import { Agent, request } from 'undici';
import { serveVariant } from './harness.mjs';

const [variant, stub] = process.argv.slice(2);
const TENANT = 'bench-tenant';
const path = '/api/v1/exhibitor/event/bench-2026?Page=1&ItemsPerPage=50';
const headers = (token) => ({
  Authorization: `Bearer ${token}`,
  'X-Tenant-Id': TENANT,
  Accept: 'application/json',
});
const form = 'client_id=bench&client_secret=bench-secret&grant_type=client_credentials&scope=idp_api';

const makers = {
  async undici() {
    const dispatcher = new Agent();
    const reply = await request(`${stub}/connect/token`, {
      method: 'POST',
      body: form,
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
    });
    const { access_token: token } = await reply.body.json();
    return async () => {
      const { body } = await request(stub + path, { dispatcher, headers: headers(token) });
      return body.json();
    };
  },

  async axios() {
    const client = create({ httpAgent: new HttpAgent({ keepAlive: true }) });
    const { data } = await client.post(`${stub}/connect/token`, form);
    return async () => (await client.get(stub + path, { headers: headers(data.access_token) })).data;
  },

  /** What a host writes by hand: a cached token, a timeout and three tries. */
  async httpService() {
    await import('reflect-metadata');
    const { HttpService } = await import('@nestjs/axios');
    const http = new HttpService(create({ httpAgent: new HttpAgent({ keepAlive: true }), timeout: 4_000 }));
    let cached;
    const token = () => {
      if (cached && Date.now() < cached.until) {
        return from(cached.promise);
      }
      const promise = firstValueFrom(http.post(`${stub}/connect/token`, form)).then(
        ({ data }) => data.access_token,
      );
      cached = { promise, until: Date.now() + 3_540_000 };
      return from(promise);
    };
    const list = () =>
      defer(token).pipe(
        switchMap((accessToken) => http.get(stub + path, { headers: headers(accessToken) })),
        retry({
          count: 2,
          delay: (error, count) =>
            [408, 429, 500, 502, 503, 504].includes(error.response?.status ?? 503)
              ? timer(Math.random() * 100 * 2 ** count)
              : throwError(() => error),
        }),
        catchError((error) => throwError(() => new Error(error.message))),
      );
    return async () => (await firstValueFrom(list())).data;
  },

  async exhibitor() {
    await import('reflect-metadata');
    const { NestFactory } = await import('@nestjs/core');
    const { ExhibitorModule, ExhibitorsService } = await import('../../dist/index.js');
    const tenant = {
      tenantId: TENANT,
      baseUrl: stub,
      authUrl: stub,
      clientId: 'bench',
      clientSecret: 'bench-secret',
    };
    const app = await NestFactory.createApplicationContext(ExhibitorModule.forRoot({ tenant }), {
      logger: false,
    });
    const exhibitors = app.get(ExhibitorsService);
    return () => firstValueFrom(exhibitors.list('bench-2026'));
  },
};

const call = await makers[variant]();
serveVariant(async ({ concurrency, calls }) => {
  let left = calls;
  const caller = async () => {
    while (left > 0) {
      left -= 1;
      const page = await call();
      if (page.data.length !== 50) {
        throw new Error('not the page that was asked for');
      }
    }
  };
  await Promise.all(Array.from({ length: concurrency }, caller));
  return { calls };
});
