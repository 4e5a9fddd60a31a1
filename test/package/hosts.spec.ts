import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { ExhibitorSandbox, type SandboxTenantOptions } from '../../lib/testing/index.js';
import { readmeHost, readmeJest } from '../structure/readme.js';
import { freePort } from '../support/host.js';
import { formFields, Visitor } from '../support/visitor.js';
import { Outside, pack, ROOT, versions } from './tarball.js';

let folder: string;
let tarball: string;
let sandbox: ExhibitorSandbox;
let child: ChildProcess | undefined;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'exhibitor-pack-'));
  ({ tarball } = await pack(folder));
  sandbox = await ExhibitorSandbox.start();
});

afterEach(() => {
  child?.kill('SIGKILL');
});

afterAll(async () => {
  await sandbox.stop();
  rmSync(folder, { recursive: true });
});

/** Environment of the README's host for a tenant of the sandbox. */
function environment(tenant: SandboxTenantOptions, port: number): NodeJS.ProcessEnv {
  const { login } = tenant;
  return {
    PORT: String(port),
    TENANT_ID: tenant.tenantId,
    BASE_URL: tenant.baseUrl,
    AUTH_URL: tenant.authUrl,
    API_CLIENT_ID: tenant.clientId,
    API_CLIENT_SECRET: tenant.clientSecret,
    LOGIN_CLIENT_ID: login.clientId,
    LOGIN_CLIENT_SECRET: login.clientSecret,
    REDIRECT_URI: login.redirectUri,
    ISSUER: login.issuer,
    IDP_PUBLIC_KEY: sandbox.publicKeyPem,
    COOKIE_SECRET: 'a cookie secret of 32 characters or more',
    TENANT: JSON.stringify(tenant),
  };
}

async function isUp(url: string, process: ChildProcess): Promise<void> {
  const said: string[] = [];
  process.stdout?.on('data', (chunk) => said.push(String(chunk)));
  process.stderr?.on('data', (chunk) => said.push(String(chunk)));
  for (let attempt = 0; attempt < 200; attempt++) {
    if (process.exitCode !== null) throw new Error(`the host ended:\n${said.join('')}`);
    try {
      await fetch(url);
      return;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
  throw new Error(`the host does not answer:\n${said.join('')}`);
}

/** Logs in and reads one's exhibitors, then ends the host by SIGTERM. */
async function useHost(url: string, host: ChildProcess): Promise<void> {
  await isUp(url, host);
  sandbox.signInAs('sam.several@example.com');
  const visitor = new Visitor();
  const done = (next: URL): boolean => next.href === `${url}/events/world-2026/mine`;
  const login = `${url}/auth/login?eventId=world-2026&returnTo=/events/world-2026/mine`;
  let reply = await visitor.follow(login, done);
  if (reply.text.includes('<form')) {
    const { action, fields } = formFields(reply.text);
    reply = { ...(await visitor.visit(action, { form: fields })), url: action };
  }
  expect(reply.status).toBe(303);
  const mine = await visitor.visit(`${url}/events/world-2026/mine`);
  expect([mine.status, JSON.parse(mine.text)]).toEqual([200, expect.arrayContaining([expect.any(Object)])]);
  expect(JSON.parse(mine.text)).toHaveLength(3);
  const page = await visitor.visit(`${url}/events/world-2026/exhibitors`);
  expect(JSON.parse(page.text)).toMatchObject({ paginationMetadata: { totalCount: 1234 } });
  host.kill('SIGTERM');
  await once(host, 'exit');
}

describe('the packed tarball, installed outside the repository', () => {
  it('boots the host of the README on Nest 12 in plain node, and a person logs in', async () => {
    const outside = new Outside();
    const port = await freePort();
    outside.write('package.json', { name: 'readme-host', private: true, type: 'module' });
    outside.write('main.ts', readmeHost());
    outside.write('tsconfig.json', {
      compilerOptions: {
        module: 'nodenext',
        target: 'ES2022',
        strict: true,
        experimentalDecorators: true,
        emitDecoratorMetadata: true,
        types: ['node'],
      },
    });
    await outside.install(
      tarball,
      ...versions(
        '@nestjs/common',
        '@nestjs/core',
        '@nestjs/platform-express',
        '@nestjs/axios',
        '@nestjs/passport',
      ),
      ...versions(
        'axios',
        'passport',
        'rxjs',
        'reflect-metadata',
        '@types/node',
        '@types/express',
        'typescript',
      ),
    );
    // Without skipLibCheck: our declarations must stand on their own in a host.
    const said = await outside.run('npx', ['tsc', '-p', '.']);
    expect(said.trim()).toBe('');
    const redirectUri = `http://127.0.0.1:${port}/auth/callback`;
    child = outside.start('main.js', environment(sandbox.tenantOptions('acme', { redirectUri }), port));
    await useHost(`http://127.0.0.1:${port}`, child);

    // Exactly these names: whatever else became public would have to stay.
    const names = await outside.run('node', [
      '-e',
      "import('nestjs-exhibitor').then((m) => console.log(Object.keys(m).join()))",
    ]);
    expect(names.trim().split(',').toSorted()).toEqual(PUBLIC_NAMES);
    const required = await outside.run('node', [
      '--input-type=commonjs',
      '-e',
      "console.log(typeof require('nestjs-exhibitor').ExhibitorModule)",
    ]);
    expect(required.trim()).toContain('function');
    // The optional peer is not there: importing the sandbox works, starting it says what to install.
    const missing = await outside.run('node', [
      '-e',
      "import('nestjs-exhibitor/testing').then((m) => m.ExhibitorSandbox.start()).catch((e) => console.log(e.message))",
    ]);
    expect(missing).toContain('npm install --save-dev oidc-provider');
    outside.remove();
  });

  describe('in a CommonJS host on Nest 11', () => {
    let outside: Outside;
    beforeAll(async () => {
      outside = new Outside();
      outside.copy(join(ROOT, 'test/package/hosts/commonjs'));
      await outside.install(
        tarball,
        ...['common', 'core', 'platform-express', 'platform-fastify', 'testing', 'passport'].map(
          (name) => `@nestjs/${name}@^11`,
        ),
        '@nestjs/axios@^4',
        'typescript@~5.9',
        'jest@^30',
        'ts-jest@^29',
        '@types/jest@^30',
        ...versions('axios', 'passport', 'rxjs', 'reflect-metadata', '@types/node', '@types/express'),
      );
      await outside.run('npx', ['tsc', '-p', '.']);
    });
    afterAll(() => outside.remove());

    it.each([
      ['express', 'code'],
      ['fastify', 'code'],
      ['express', 'code id_token'],
      ['fastify', 'code token id_token'],
    ] as const)('a person logs in on %s by %s', async (adapter, responseType) => {
      const port = await freePort();
      const redirectUri = `http://127.0.0.1:${port}/auth/callback`;
      const tenant = sandbox.tenantOptions('globex', { redirectUri, responseType });
      child = outside.start('built/main.js', { ...environment(tenant, port), ADAPTER: adapter });
      await useHost(`http://127.0.0.1:${port}`, child);
    });

    it('its usual Jest runs against us with the configuration of the README', async () => {
      const { jest: settings } = JSON.parse(
        readFileSync(join(outside.folder, 'package.json'), 'utf8'),
      ) as Manifest;
      expect(settings).toMatchObject(readmeJest());
      const tenant = sandbox.tenantOptions('acme');
      const said = await outside.run('npx', ['jest', '--ci'], environment(tenant, 0));
      expect(said).toMatch(/Tests:\s+2 passed, 2 total/);
    });
  });
});

interface Manifest {
  jest: object;
}

const PUBLIC_NAMES = [
  'ConfigurationError',
  'CurrentEvent',
  'CurrentExhibitor',
  'CurrentExhibitors',
  'CurrentIdentity',
  'CurrentTenant',
  'ExhibitorCallbackGuard',
  'ExhibitorError',
  'ExhibitorExceptionFilter',
  'ExhibitorGuard',
  'ExhibitorIdentityGuard',
  'ExhibitorLoginGuard',
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
  'isExhibitorError',
];
