import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { INestApplication } from '@nestjs/common';
import { ExhibitorMirror } from '../../lib/bullmq/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { createMirrorApp } from '../../sample/mirror/main.js';
import { BrowserVisitor, describeInChromium } from '../support/browser.js';
import { nativeRequire } from '../support/native-require.js';
import { describeWithPostgres, PostgresServer } from '../support/postgres.js';
import { describeWithRedis, RedisServer } from '../support/redis.js';
import { startSandbox } from '../support/sandbox.js';
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
      const { login: _login, ...tenant } = sandbox.tenantOptions('acme');
      app = await createMirrorApp({
        databaseUrl: postgres.url,
        redisUrl: redis.url,
        tenants: { acme: tenant },
        events: [NATIONAL, { tenant: 'acme', eventId: 'boutique-2026' }],
        every: 1_000,
      });
      await app.listen(0, '127.0.0.1');
      url = await app.getUrl();
    });
    afterAll(async () => {
      await app?.close();
      await Promise.all([postgres?.stop(), redis?.stop(), sandbox?.stop()]);
    });

    it('copies the events by itself', async () => {
      const mirror = app.get(ExhibitorMirror);
      await eventually(async () => (await mirror.status()).filter(({ rows }) => rows).length === 2, 20_000);
      expect(await mirror.status(NATIONAL)).toEqual([
        { ...NATIONAL, completedAt: expect.any(Date), rows: 251 },
      ]);
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
        await visitor.arrivesAt('Copied events');
        const rows = await visitor.page.getByRole('row').allInnerTexts();
        expect(rows.slice(1).map((row) => row.replace(/\s+/g, ' '))).toEqual([
          expect.stringMatching(/^boutique-2026 acme 7 .*20\d\d.* none$/),
          expect.stringMatching(/^national-2026 acme 251 .* none$/),
        ]);
        await expectAccessible();
        await visitor.screenshot('mirror-1');
      });

      it('searches the copied rows', async () => {
        const [, wanted] = sandbox.exhibitors(NATIONAL.eventId, 'acme');
        const name = String(wanted?.['name']);
        await visitor.page.getByRole('searchbox', { name: 'Name contains' }).fill(name.toUpperCase());
        await visitor.page.getByRole('button', { name: 'Search' }).click();
        await visitor.page.getByRole('rowheader', { name, exact: true }).waitFor();
        await expectAccessible();
        await visitor.screenshot('mirror-2');
        await visitor.page.goto(`${url}/?tenant=globex&text=%25`);
        expect(await visitor.text()).toContain('No exhibitor has this name.');
      });

      it('shows removals that are held back, and lets them go', async () => {
        const left = sandbox.exhibitors(NATIONAL.eventId, 'acme').slice(0, 100);
        sandbox.setExhibitors(NATIONAL.eventId, left, 'acme');
        const mirror = app.get(ExhibitorMirror);
        await eventually(async () => (await mirror.status(NATIONAL))[0]?.held === 151, 20_000);
        await visitor.page.goto(url);
        await expectAccessible();
        await visitor.screenshot('mirror-3');
        await visitor.page.getByRole('button', { name: 'Remove 151 exhibitors of national-2026' }).click();
        await visitor.page.getByText('Approved.').waitFor();
        await eventually(async () => (await mirror.status(NATIONAL))[0]?.held === undefined, 20_000);
        await visitor.page.goto(url);
        await visitor.page.getByRole('row', { name: 'national-2026 acme 100' }).waitFor();
        expect(await visitor.page.getByRole('button', { name: 'Remove' }).count()).toBe(0);
        expect(visitor.troubles).toEqual([]);
      });
    });
  });
});
