import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { getQueueToken } from '@nestjs/bullmq';
import type { INestApplication } from '@nestjs/common';
import type { Queue } from 'bullmq';
import type { ExhibitorSandbox } from '../../lib/development/testing/index.js';
import { CopySchedule } from '../../sample/mirror/copies.js';
import { createMirrorApp } from '../../sample/mirror/main.js';
import { COOKIE_SECRET } from '../support/host.js';
import { describeWithPostgres, PostgresServer } from '../support/postgres.js';
import { describeWithRedis, RedisServer } from '../support/redis.js';
import { startSandbox } from '../support/sandbox.js';
import { freePort } from '../support/server.js';
import { Visitor } from '../support/visitor.js';
import { eventually } from '../support/wait.js';

const EVENT = 'national-2026';

describeWithPostgres('the portal of the sample that copies events', (postgresPath) => {
  describeWithRedis('on Redis', (redisPath) => {
    let postgres: PostgresServer;
    let redis: RedisServer;
    let sandbox: ExhibitorSandbox;
    let app: INestApplication;
    let url: string;

    beforeAll(async () => {
      [postgres, redis, sandbox] = await Promise.all([
        PostgresServer.start(postgresPath),
        RedisServer.start(redisPath, ['--maxmemory-policy', 'noeviction']),
        startSandbox(),
      ]);
      const port = await freePort();
      url = `http://127.0.0.1:${port}`;
      app = await createMirrorApp({
        databaseUrl: postgres.url,
        redisUrl: redis.url,
        tenants: { acme: sandbox.tenantOptions('acme', { redirectUri: `${url}/acme/auth/callback` }) },
        secrets: [COOKIE_SECRET],
        operators: ['olga.one@example.com'],
        events: [{ tenant: 'acme', eventId: EVENT }],
        every: 1_000,
      });
      await app.listen(port, '127.0.0.1');
    });
    afterAll(async () => {
      await app?.close();
      await Promise.all([postgres?.stop(), redis?.stop(), sandbox?.stop()]);
    });

    it('copies by itself, and shows to operators the state, the copied rows, and removals that are held back', async () => {
      sandbox.signInAs('olga.one@example.com');
      const visitor = new Visitor();
      expect(await visitor.follow(`${url}/acme/auth/login?returnTo=/acme`)).toMatchObject({ status: 200 });
      const page = async (query = ''): Promise<string> => (await visitor.visit(`${url}/acme${query}`)).text;
      const shows = (...[stored, read, held]: string[]) =>
        eventually(
          async () =>
            (await page())
              .replaceAll(/\s*<[^>]+>\s*/g, ' ')
              .replaceAll(/\s+/g, ' ')
              .includes(`${EVENT} ${stored} ${read} ${held} `),
          20_000,
        );
      await shows('251', '251', 'none');

      const all = sandbox.exhibitors(EVENT, 'acme');
      const name = String(all[0]?.['name']);
      const search = `?${new URLSearchParams({ text: name.toUpperCase() })}`;
      expect(await page(search)).toContain(`<th scope="row">${name}</th>`);
      expect(await page('?text=%25')).toContain('No exhibitor has this name.');

      sandbox.setExhibitors(EVENT, all.slice(0, 100), 'acme');
      await shows('251', '100', '151');
      const [, maxRemovals = ''] = /name="maxRemovals" value="(\d+)"/.exec(await page()) ?? [];
      const form = { eventId: EVENT, maxRemovals };
      expect(await visitor.visit(`${url}/acme/copy`, { form })).toMatchObject({ status: 303 });
      await shows('100', '100', 'none');
    });

    it('shows the page to operators only, and copies for nobody else', async () => {
      const form = { eventId: EVENT, maxRemovals: '9' };
      const visitor = new Visitor();
      expect((await visitor.visit(`${url}/acme/copy`, { form })).status).toBe(401);
      expect((await visitor.visit(`${url}/acme`)).status).toBe(401);
      sandbox.signInAs('sam.several@example.com');
      expect((await visitor.follow(`${url}/acme/auth/login`)).status).toBe(401);
      expect((await visitor.visit(`${url}/acme`)).status).toBe(401);
    });

    it('stops copying an event that left the plan', async () => {
      const queue = app.get<Queue>(getQueueToken('copies'));
      await queue.upsertJobScheduler('acme%20gone', { every: 60_000 }, { name: 'copy' });
      await app.get(CopySchedule).onApplicationBootstrap();
      expect((await queue.getJobSchedulers()).map(({ key }) => key)).toEqual([`acme ${EVENT}`]);
    });
  });
});
