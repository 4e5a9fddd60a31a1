import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import * as testing from '../../lib/development/testing/index.js';
import { hostFiles, jestSettings, namedSnippets, readPage, ROOT } from '../structure/readme.js';
import { formFields, Visitor } from '../support/visitor.js';
import { eventually } from '../support/wait.js';
import { environment, HostProcess, startSandboxCommand, type SandboxCommand } from './host-process.js';
import { Outside, stockProject } from './tarball.js';

/** Beside the `main.ts` of the project: that of docs/recipes.md. */
const ON_FASTIFY = `
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { AppModule } from './app.module.js';

void NestFactory.create(AppModule, new FastifyAdapter()).then((app) => app.listen(process.env['PORT'] ?? 3000));
`;

/** Exactly the names that each entry point has: every public name must be kept. */
const PUBLIC_NAMES = {
  '': [
    'AllowAnonymous',
    'ConfigurationError',
    'CurrentEvent',
    'CurrentExhibitor',
    'CurrentExhibitors',
    'CurrentIdentity',
    'CurrentTenant',
    'ExhibitorBackChannelLogoutGuard',
    'ExhibitorCallbackGuard',
    'ExhibitorError',
    'ExhibitorExceptionFilter',
    'ExhibitorGuard',
    'ExhibitorGuardServices',
    'ExhibitorIdentityGuard',
    'ExhibitorLoginGuard',
    'ExhibitorLogins',
    'ExhibitorLogoutGuard',
    'ExhibitorModule',
    'ExhibitorSelection',
    'ExhibitorsService',
    'HTTP_STATUS_BY_CODE',
    'LoginFailedError',
    'PaginationDriftError',
    'TenantRegistry',
    'TokenRejectedError',
    'TokenService',
    'TokenValidator',
    'compareExhibitors',
    'defineExhibitorOptions',
    'escapeHtml',
    'exhibitorOptionsFrom',
    'isExhibitorError',
  ],
  '/doctor': ['diagnose'],
  '/mirror': ['copyEvent'],
  '/opentelemetry': ['exhibitorMetrics', 'hideAddresses'],
  '/redis': ['RedisSharedStore'],
  '/terminus': ['ExhibitorHealthIndicator'],
  '/testing': Object.keys(testing).toSorted(),
};

describe.each([11, 12] as const)(
  'a stock project of nest new %i, after the install command of the README',
  (nest) => {
    let project: Outside;
    let sandbox: testing.ExhibitorSandbox;
    beforeAll(async () => {
      project = await stockProject(nest);
      const files: [path: string, code: string][] = [
        ...hostFiles(),
        ['src/fastify.ts', ON_FASTIFY],
        ['src/booth.controller.spec.ts', namedSnippets('docs/testing.md', 'unit test')[0]],
        ['src/counter.spec.ts', namedSnippets('docs/testing.md', 'service test')[0]],
        ['src/host.spec.ts', namedSnippets('README.md', 'host test')[0]],
        // In place of the one of the project, which expects its AppModule.
        ['test/app.e2e-spec.ts', namedSnippets('docs/testing.md', 'app test')[0]],
      ];
      files.forEach(([path, code]) => project.write(path, code));
      if (nest === 11) {
        project.edit('package.json', ({ jest, ...others }) => ({
          ...others,
          jest: { ...Object(jest), ...jestSettings() },
        }));
        project.edit('test/jest-e2e.json', (jest) => ({ ...jest, ...jestSettings() }));
      }
      sandbox = await testing.ExhibitorSandbox.start();
      await project.run('npm', ['run', 'build']);
    });
    afterAll(() => sandbox?.stop());

    it('passes the documented tests', async () => {
      const plain = { FORCE_COLOR: '0', NO_COLOR: '1' };
      const unit = await project.run('npm', ['test'], plain);
      const endToEnd = await project.run('npm', ['run', 'test:e2e'], plain);
      // Files and tests, the documented ones and the one that the project has.
      expect([unit, endToEnd].map((said) => said.match(/\b\d+ passed/g))).toEqual([
        ['4 passed', '7 passed'],
        ['1 passed', '1 passed'],
      ]);
    });

    it('compiles, the declarations of its packages included', async () => {
      const settings = [
        '-p',
        'tsconfig.build.json',
        '--noEmit',
        '--skipLibCheck',
        'false',
        '--types',
        'node',
      ];
      expect((await project.run('npx', ['tsc', ...settings])).trim()).toBe('');
    });

    it.each(['main', 'fastify'])(
      'boots %s.js without a warning, and a person logs in, chooses an exhibitor and logs out',
      async (script) => {
        const env = (url: string) => environment(sandbox, 'acme', url);
        const host = await HostProcess.start(project, [`dist/${script}.js`], env);
        const { visitor, home } = await chooseAt(sandbox, host);
        const me = await visitor.visit(`${host.url}/auth/me`);
        expect(JSON.parse(me.text)).toMatchObject({
          email: 'sam.several@example.com',
          eventId: 'world-2026',
        });
        const out = await visitor.post(new URL('/auth/logout', host.url), {});
        expect([out.reply.text, visitor.cookies().has('exhibitor-identity')]).toEqual([home, false]);
        expect(host.said).toContain('Mapped {/auth/callback, GET}');
        expect(host.said).not.toContain('WARN');
        await host.end();
      },
    );

    it('runs alone as one file of esbuild, as docs/deploy.md tells, and a person logs in', async () => {
      const [command] = namedSnippets('docs/deploy.md', 'one file');
      const esbuild = join(ROOT, 'node_modules/.bin/esbuild');
      await project.run('sh', ['-c', command.replace('npx esbuild', esbuild)]);
      const alone = new Outside();
      alone.write('main.mjs', readFileSync(join(project.folder, 'out/main.mjs'), 'utf8'));
      const env = (url: string) => environment(sandbox, 'acme', url);
      const host = await HostProcess.start(alone, ['main.mjs'], env);
      await chooseAt(sandbox, host);
      await host.end();
      alone.remove();
    });

    it('warns of a redirectUri with another path than the callback of its routes', async () => {
      const env = (url: string) => sandbox.environment('acme', { redirectUri: `${url}/callback` });
      const host = await HostProcess.start(project, ['dist/main.js'], env);
      const warning =
        'tenant.login.redirectUri: its path is /callback, but that of the callback is /auth/callback';
      await eventually(() => host.said.includes(warning));
      await host.end();
    });

    it('serves a person who logs in at the sandbox command, as docs/sandbox.md tells', async () => {
      const bin = join(project.folder, 'node_modules/.bin/nestjs-exhibitor');
      let command: SandboxCommand | undefined;
      const host = await HostProcess.start(project, ['--env-file=host.env', 'dist/main.js'], async (url) => {
        const options = ['--redirect-uri', `${url}/auth/callback`, '--write-env', 'host.env'];
        command = await startSandboxCommand(bin, project.folder, ...options);
        return {};
      });
      const home = await (await fetch(host.url)).text();
      expect(home).toContain('href="/events/world-2026/mine"');
      const [, script = ''] = /```sh\n(page=[\s\S]*?)```/.exec(readPage('docs/sandbox.md')) ?? [];
      const mine = await project.run('sh', ['-c', script.replaceAll('http://127.0.0.1:3000', host.url)]);
      expect(JSON.parse(mine)).toMatchObject({ exhibitors: [{}, {}, {}] });
      expect(await command?.stop()).toBe(143);
    });

    it('has these entry points and names, by import and by require', async () => {
      const script = `
      const names = async (path) => {
        const [imported, required] = [await import(path), require(path)];
        return Object.keys(imported).filter((name) => imported[name] === required[name]);
      };
      Promise.all(${JSON.stringify(Object.keys(PUBLIC_NAMES))}.map(async (path) => [path, await names('nestjs-exhibitor' + path)]))
        .then((all) => console.log(JSON.stringify(Object.fromEntries(all))));`;
      const said = await project.run('node', ['--input-type=commonjs', '-e', script]);
      expect(JSON.parse(said)).toEqual(PUBLIC_NAMES);
    });
  },
);

/** Logs in from the first page of the host and chooses an exhibitor. No page, and nothing for scripts, has an address of a contact. */
async function chooseAt(
  sandbox: testing.ExhibitorSandbox,
  { url }: HostProcess,
): Promise<{ visitor: Visitor; home: string }> {
  sandbox.signInAs('sam.several@example.com');
  const visitor = new Visitor();
  const { text: home } = await visitor.visit(url);
  const [, mine = ''] = /<a href="(.+?)">My booth/.exec(home) ?? [];
  // As `Visitor.open`, but also across origins.
  const asked = await visitor.follow(`${url}${mine}`, undefined, { accept: 'text/html' });
  const { fields } = formFields(asked.text);
  const booth = await visitor.post(new URL('/auth/choose', url), {
    ...fields,
    exhibitorId: String(/ value="([^"]+)" dir/.exec(asked.text)?.[1]),
  });
  expect([booth.reply.status, booth.url.href]).toEqual([200, `${url}${mine}`]);
  expect(booth.reply.text).toMatch(/^<h1>\w/);
  const script = await visitor.visit(`${url}/auth/choose?eventId=world-2026`);
  expect(JSON.parse(script.text)).toMatchObject({ exhibitors: [{}, {}, {}] });
  expect(`${booth.reply.text}${script.text}`).not.toContain('@');
  return { visitor, home };
}
