import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { getQueueToken } from '@nestjs/bullmq';
import type { INestApplication } from '@nestjs/common';
import type { Queue } from 'bullmq';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { CopySchedule } from '../../sample/mirror/copies.js';
import { createMirrorApp } from '../../sample/mirror/main.js';
import { PostgresMirror, type MirroredEvent } from '../../sample/mirror/postgres-mirror.js';
import { BrowserVisitor, describeInChromium } from '../support/browser.js';
import { nativeRequire } from '../support/native-require.js';
import { describeWithPostgres, PostgresServer } from '../support/postgres.js';
import { describeWithRedis, RedisServer } from '../support/redis.js';
import { COOKIE_SECRET } from '../support/host.js';
import { startSandbox } from '../support/sandbox.js';
import { freePort } from '../support/server.js';
import { Visitor } from '../support/visitor.js';
import { eventually } from '../support/wait.js';

const NATIONAL = { tenant: 'acme', eventId: 'national-2026' };

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
      sandbox.signInAs('olga.one@example.com');
      app = await createMirrorApp({
        databaseUrl: postgres.url,
        redisUrl: redis.url,
        tenants: {
          acme: sandbox.tenantOptions('acme', { redirectUri: `http://127.0.0.1:${port}/acme/auth/callback` }),
        },
        secrets: [COOKIE_SECRET],
        operators: ['olga.one@example.com'],
        events: [NATIONAL, { tenant: 'acme', eventId: 'boutique-2026' }],
        every: 1_000,
      });
      await app.listen(port, '127.0.0.1');
      url = await app.getUrl();
    });
    afterAll(async () => {
      await app?.close();
      await Promise.all([postgres?.stop(), redis?.stop(), sandbox?.stop()]);
    });

    const mirrored = (): Promise<MirroredEvent[]> => app.get(PostgresMirror).events('acme');

    it('copies the events by itself', async () => {
      await eventually(
        async () => (await mirrored()).filter(({ copiedAt }) => copiedAt).length === 2,
        20_000,
      );
      const complete = { held: 0, copiedAt: expect.any(Date) };
      expect(await mirrored()).toEqual([
        { eventId: 'boutique-2026', stored: 7, read: 7, ...complete },
        { eventId: 'national-2026', stored: 251, read: 251, ...complete },
      ]);
    });

    it('shows the page to operators only, and copies for nobody else', async () => {
      const copy = {
        method: 'POST',
        body: new URLSearchParams({ eventId: 'boutique-2026', maxRemovals: '9' }),
      };
      expect((await fetch(`${url}/acme/copy`, copy)).status).toBe(401);
      expect((await fetch(`${url}/acme`)).status).toBe(401);
      const visitor = new Visitor();
      sandbox.signInAs('sam.several@example.com');
      const refused = await visitor.follow(`${url}/acme/auth/login`);
      expect(refused.status).toBe(401);
      expect((await visitor.visit(`${url}/acme`)).status).toBe(401);
      sandbox.signInAs('olga.one@example.com');
    });

    it('stops copying an event that left the plan', async () => {
      const queue = app.get<Queue>(getQueueToken('copies'));
      await queue.upsertJobScheduler('acme%20gone', { every: 60_000 }, { name: 'copy' });
      await app.get(CopySchedule).onApplicationBootstrap();
      const schedulers = (await queue.getJobSchedulers()).map(({ key }) => key);
      expect(schedulers.toSorted()).toEqual(['acme boutique-2026', 'acme national-2026']);
    });

    describeInChromium('in a browser', (browser) => {
      let visitor: BrowserVisitor;
      beforeAll(async () => {
        visitor = await BrowserVisitor.arrive(browser());
      });
      afterAll(() => visitor?.leave());

      async function expectAccessible(): Promise<void> {
        await visitor.page.evaluate(readFileSync(nativeRequire.resolve('axe-core/axe.min.js'), 'utf8'));
        const problems = 'violations.map(({ id, nodes }) => [id, ...nodes.map(({ html }) => html)])';
        expect(await visitor.page.evaluate(`axe.run().then(({ violations }) => ${problems})`)).toEqual([]);
      }

      it('shows the state of each event', async () => {
        await visitor.page.goto(url);
        await visitor.arrivesAt('Copied events of acme');
        const rows = await visitor.page.getByRole('row').allInnerTexts();
        expect(rows.slice(1).map((row) => row.replace(/\s+/g, ' '))).toEqual([
          expect.stringMatching(/^boutique-2026 7 7 none .*20\d\d.* Copy$/),
          expect.stringMatching(/^national-2026 251 251 none .* Copy$/),
        ]);
        await expectAccessible();
      });

      it('searches the copied rows', async () => {
        const [, wanted] = sandbox.exhibitors(NATIONAL.eventId, 'acme');
        const name = String(wanted?.['name']);
        await visitor.page.getByRole('searchbox', { name: 'Name contains' }).fill(name.toUpperCase());
        await visitor.page.getByRole('button', { name: 'Search' }).click();
        await visitor.page.getByRole('rowheader', { name, exact: true }).waitFor();
        await expectAccessible();
        await visitor.page.goto(`${url}/acme?text=%25`);
        expect(await visitor.text()).toContain('No exhibitor has this name.');
      });

      it('shows removals that are held back, and lets them go', async () => {
        const left = sandbox.exhibitors(NATIONAL.eventId, 'acme').slice(0, 100);
        sandbox.setExhibitors(NATIONAL.eventId, left, 'acme');
        await eventually(async () => (await mirrored())[1]?.held === 151, 20_000);
        await visitor.page.goto(url);
        await expectAccessible();
        await visitor.page
          .getByRole('button', { name: 'Copy national-2026 and remove 151 exhibitors' })
          .click();
        await visitor.page.getByRole('row', { name: 'national-2026 100 100 none' }).waitFor();
        expect(await visitor.page.getByRole('button', { name: 'remove' }).count()).toBe(0);
        expect(visitor.troubles).toEqual([]);
      });
    });
  });
});
