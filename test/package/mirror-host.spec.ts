import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { Pool } from 'pg';
import { ExhibitorSandbox } from '../../lib/testing/index.js';
import { filesOf } from '../structure/readme.js';
import { describeWithPostgres, PostgresServer } from '../support/postgres.js';
import { describeWithRedis, RedisServer } from '../support/redis.js';
import { freePort } from '../support/server.js';
import { eventually } from '../support/wait.js';
import { environment, isUp } from './host-process.js';
import { HOST_COMPILER_OPTIONS, Outside, pack, versions } from './tarball.js';

/** That of `nest new`, with the line that the page adds. */
const MAIN = `
  import { NestFactory } from '@nestjs/core';
  import { AppModule } from './app.module.js';

  const app = await NestFactory.create(AppModule);
  app.enableShutdownHooks();
  await app.listen(process.env['PORT'] ?? 3000);
`;

describeWithPostgres('the application of docs/mirror.md, on the packed tarball', (postgresPath) => {
  describeWithRedis('with Redis', (redisPath) => {
    const outside = new Outside();
    let sandbox: ExhibitorSandbox;
    let postgres: PostgresServer;
    let redis: RedisServer;
    let pool: Pool;
    const children: ChildProcess[] = [];

    beforeAll(async () => {
      const { tarball } = await pack();
      outside.write('package.json', { name: 'mirror-host', private: true, type: 'module' });
      outside.write('src/main.ts', MAIN);
      filesOf('docs/mirror.md').forEach(([path, code]) => outside.write(path, code));
      outside.write('tsconfig.json', {
        compilerOptions: { ...HOST_COMPILER_OPTIONS, target: 'ES2023', skipLibCheck: true },
        include: ['src'],
      });
      await outside.install(
        tarball,
        ...['common', 'core', 'platform-express', 'axios', 'passport', 'bullmq'].flatMap((name) =>
          versions(`@nestjs/${name}`),
        ),
        ...versions('axios', 'passport', 'rxjs', 'reflect-metadata', 'zod', 'bullmq', 'ioredis', 'pg'),
        ...versions('@types/node', '@types/express', '@types/pg', 'typescript'),
      );
      await outside.run(process.execPath, ['node_modules/typescript/bin/tsc', '-p', '.']);
      [sandbox, postgres, redis] = await Promise.all([
        ExhibitorSandbox.start(),
        PostgresServer.start(postgresPath),
        RedisServer.start(redisPath, ['--maxmemory-policy', 'noeviction']),
      ]);
      pool = new Pool({ connectionString: postgres.url });
    });
    afterAll(async () => {
      children.forEach((child) => child.kill('SIGKILL'));
      await pool?.end();
      await Promise.all([sandbox?.stop(), postgres?.stop(), redis?.stop()]);
      outside.remove();
    });

    /** Starts the application; resolves with its state when it answers. */
    async function start(): Promise<{ child: ChildProcess; state: () => Promise<object[]> }> {
      const port = await freePort();
      const child = outside.start('dist/main.js', {
        ...environment(sandbox, 'acme', {}, port),
        DATABASE_URL: postgres.url,
        REDIS_URL: redis.url,
        COPY_EVERY: '2000',
      });
      child.stderr?.pipe(process.stderr);
      children.push(child);
      const state = async (): Promise<object[]> => {
        const reply = await fetch(`http://127.0.0.1:${port}/mirror`);
        return (await reply.json()) as object[];
      };
      await isUp(`http://127.0.0.1:${port}`, child);
      return { child, state };
    }

    async function copied(eventId: string): Promise<number> {
      const { rows } = await pool.query(
        "SELECT count(*)::int FROM mirrored_exhibitor WHERE (tenant, event_id) = ('default', $1)",
        [eventId],
      );
      return rows[0].count;
    }

    it('copies its events, tells their state, and goes on in another process after a kill', async () => {
      const [first, second] = [await start(), await start()];
      await eventually(async () => (await copied('world-2026')) === 1_234, 20_000);
      await eventually(async () => (await copied('national-2026')) === 251, 20_000);
      const world = {
        eventId: 'world-2026',
        stored: 1_234,
        read: 1_234,
        held: 0,
        copiedAt: expect.any(String),
      };
      await eventually(async () => JSON.stringify(await second.state()).includes('1234'), 10_000);
      await eventually(
        async () =>
          (await second.state()).length === 2 && !JSON.stringify(await second.state()).includes('null'),
      );
      expect(await second.state()).toContainEqual(world);
      const { rows } = await pool.query(
        'SELECT DISTINCT jsonb_object_keys(exhibitor) AS field FROM mirrored_exhibitor',
      );
      expect(rows.map(({ field }) => field).toSorted()).toEqual(['id', 'name']);

      first.child.kill('SIGKILL');
      const [, ...left] = sandbox.exhibitors('world-2026', 'acme');
      sandbox.setExhibitors('world-2026', left, 'acme');
      // A job of the process that was killed is taken over within 15 s.
      await eventually(async () => (await copied('world-2026')) === 1_233, 30_000);
      const ended = once(second.child, 'exit');
      second.child.kill('SIGTERM');
      expect(await ended).toEqual([null, 'SIGTERM']);
    });

    it('is not loaded by a host that does not import it', async () => {
      const root = join(outside.folder, 'node_modules/nestjs-exhibitor/dist');
      const seen = new Set<string>();
      const load = (file: string): void => {
        if (!seen.has(file)) {
          seen.add(file);
          for (const [, name = ''] of readFileSync(file, 'utf8').matchAll(
            /(?:from|import)\s*\(?'(\.[^']+)'/g,
          )) {
            load(join(dirname(file), name));
          }
        }
      };
      load(join(root, 'index.js'));
      const loaded = [...seen].map((file) => readFileSync(file, 'utf8')).join('\n');
      expect([loaded.includes("from 'undici'"), loaded.includes('copyEvent')]).toEqual([true, false]);
      const names = "import('nestjs-exhibitor/mirror').then((m) => console.log(Object.keys(m).join()))";
      expect((await outside.run('node', ['-e', names])).trim()).toBe('copyEvent');
    });
  });
});
