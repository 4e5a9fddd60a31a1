import { once } from 'node:events';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { ExhibitorSandbox } from '../../lib/development/testing/index.js';
import { filesOf, hostFiles, namedSnippets } from '../structure/readme.js';
import { describeWithPostgres, PostgresServer } from '../support/postgres.js';
import { describeWithRedis, RedisServer } from '../support/redis.js';
import { eventually } from '../support/wait.js';
import { environment, HostProcess } from './host-process.js';
import { Outside, stockProject } from './tarball.js';

/** That of `nest new`, with the line that the page adds. */
const MAIN = `
  import { NestFactory } from '@nestjs/core';
  import { AppModule } from './app.module.js';

  const app = await NestFactory.create(AppModule);
  app.enableShutdownHooks();
  await app.listen(process.env['PORT'] ?? 3000);
`;

const IMPORT = "import { MirrorModule } from './mirror.module.js';\n";

describeWithPostgres('the application of docs/mirror.md, on the packed tarball', (postgresPath) => {
  describeWithRedis('with Redis', (redisPath) => {
    const host = new Outside();
    let sandbox: ExhibitorSandbox;
    let postgres: PostgresServer;
    let redis: RedisServer;
    beforeAll(async () => {
      host.link(await stockProject(12));
      host.write('package.json', { type: 'module' });
      host.write('src/main.ts', MAIN);
      filesOf('docs/mirror.md').forEach(([path, code]) => host.write(path, code));
      // The host of the README, with the module of the page.
      hostFiles().forEach(([path, code]) =>
        host.write(path, `${IMPORT}${code.replace('imports: [', 'imports: [MirrorModule, ')}`),
      );
      await host.run('sh', ['-c', namedSnippets('docs/mirror.md', 'copy')[0]]);
      host.write('tsconfig.json', {
        compilerOptions: {
          module: 'nodenext',
          target: 'ES2023',
          strict: true,
          skipLibCheck: true,
          experimentalDecorators: true,
          emitDecoratorMetadata: true,
          types: ['node'],
          rootDir: 'src',
          outDir: 'dist',
        },
        include: ['src'],
      });
      await host.compile();
      [sandbox, postgres, redis] = await Promise.all([
        ExhibitorSandbox.start(),
        PostgresServer.start(postgresPath),
        RedisServer.start(redisPath, ['--maxmemory-policy', 'noeviction']),
      ]);
    });
    afterAll(async () => {
      await Promise.all([sandbox?.stop(), postgres?.stop(), redis?.stop()]);
      host.remove();
    });

    it('copies its events, and again when they have changed, tells their state, and ends by SIGTERM', async () => {
      const { url, child } = await HostProcess.start(host, ['dist/main.js'], (address) => ({
        ...environment(sandbox, 'acme', address),
        DATABASE_URL: postgres.url,
        REDIS_URL: redis.url,
        COPY_EVERY: '2000',
      }));
      const state = async (): Promise<unknown> => (await fetch(`${url}/mirror`)).json();
      const copied = (eventId: string, count: number) => ({
        eventId,
        stored: count,
        read: count,
        held: 0,
        copiedAt: expect.any(String),
      });
      await eventually(
        async () => (JSON.stringify(await state()).match(/"copiedAt":"/g) ?? []).length === 2,
        20_000,
      );
      expect(await state()).toEqual(
        expect.arrayContaining([copied('world-2026', 1_234), copied('national-2026', 251)]),
      );
      const [, ...left] = sandbox.exhibitors('world-2026', 'acme');
      sandbox.setExhibitors('world-2026', left, 'acme');
      await eventually(async () => JSON.stringify(await state()).includes('"stored":1233'), 20_000);
      const ended = once(child, 'exit');
      child.kill('SIGTERM');
      expect(await ended).toEqual([null, 'SIGTERM']);
    });
  });
});
