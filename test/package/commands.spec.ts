import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { decodeJwt } from 'jose';
import { ExhibitorSandbox } from '../../lib/development/testing/index.js';
import { startServer } from '../support/server.js';
import { formFields, Visitor } from '../support/visitor.js';
import { startSandboxCommand, useSandboxCommand } from './host-process.js';
import { manifest, Outside, pack, versions } from './tarball.js';

/** In an empty folder: first without peer dependencies, then with those that npm adds. */
describe('the command of the packed tarball', () => {
  const alone = new Outside();
  const bin = join(alone.folder, 'node_modules/.bin/nestjs-exhibitor');
  let tarball: string;
  let sandbox: ExhibitorSandbox;
  beforeAll(async () => {
    ({ tarball } = await pack());
    alone.write('package.json', { name: 'empty', private: true });
    await alone.install('--legacy-peer-deps', tarball);
    sandbox = await ExhibitorSandbox.start();
  });
  afterAll(async () => {
    alone.remove();
    await sandbox?.stop();
  });

  /** The exit code of the command, and its output. */
  async function attempt(...args: string[]): Promise<{ code: unknown; said: string }> {
    try {
      return { code: 0, said: await alone.run(bin, args) };
    } catch (error) {
      return { code: Object(Object(error)['cause'])['code'], said: String(error) };
    }
  }

  it('shows its version and helps', async () => {
    expect((await alone.run(bin, ['--version'])).trim()).toBe(manifest.version);
    const said = await alone.run(bin, ['--help']);
    expect(said).toMatch(/\n  sandbox  .*\n  doctor  /);
    expect(await alone.run(bin, [])).toBe(said);
    for (const command of ['sandbox', 'doctor', 'schema']) {
      expect(await alone.run(bin, [command, '--help'])).toContain(`Usage: nestjs-exhibitor ${command}`);
    }
  });

  it.each([
    [['sandbocks'], 'nestjs-exhibitor sandbocks: there is no such command. See nestjs-exhibitor --help\n'],
    [['toString'], 'nestjs-exhibitor toString: there is no such command. See nestjs-exhibitor --help\n'],
    [['sandbox', '--prot', '1'], "nestjs-exhibitor sandbox: Unknown option '--prot'\n"],
    [
      ['sandbox', '--port', '0'],
      'nestjs-exhibitor sandbox: ExhibitorSandbox requires the package "oidc-provider" 9, which is not installed. ' +
        'Install it in this folder: npm install --save-dev oidc-provider@9\n',
    ],
  ])('says in one line why it cannot run %j, with exit code 2', async (args, message) => {
    const { code, said } = await attempt(...args);
    expect([code, said.split(' failed:\n')[1]?.trim()]).toEqual([2, message.trim()]);
  });

  it('starts the sandbox without Nest, and ends by SIGTERM', async () => {
    await alone.install('--legacy-peer-deps', ...versions('oidc-provider'));
    expect(existsSync(join(alone.folder, 'node_modules/@nestjs'))).toBe(false);
    await useSandboxCommand(await startSandboxCommand(bin, alone.folder));
  });

  // In a test of Jest, `oidc-provider` cannot set up what refuses addresses on loopback.
  it('sends a logout token to the host on loopback that the seed names', async () => {
    const tokens: string[] = [];
    const host = await startServer(async (request, response) => {
      tokens.push(new URLSearchParams(await text(request)).get('logout_token') ?? '');
      response.end();
    });
    const [tenant] = sandbox.tenants;
    alone.write('seed.json', { tenants: [{ ...tenant, backChannelLogoutUri: `${host.url}/backchannel` }] });
    const { url, stop } = await startSandboxCommand(bin, alone.folder, '--seed', 'seed.json');
    const visitor = new Visitor();
    const parameters = {
      client_id: String(tenant?.loginClientId),
      response_type: 'code',
      scope: 'openid profile',
      redirect_uri: 'http://127.0.0.1:3000/auth/callback',
      code_challenge: 'x'.repeat(43),
      code_challenge_method: 'S256',
    };
    const page = await visitor.follow(`${url}/connect/authorize?${new URLSearchParams(parameters)}`);
    const chosen = await visitor.visit(new URL(formFields(page.text).action, url), {
      form: { person: 'olga.one' },
    });
    await visitor.follow(chosen.location ?? '', (next) => next.port === '3000');
    const leaving = formFields((await visitor.visit(`${url}/connect/endsession`)).text);
    await visitor.visit(leaving.action, { form: { ...leaving.fields, logout: 'yes' } });
    await stop();
    await host.stop();
    expect(tokens.map((token) => decodeJwt(token))).toEqual([
      expect.objectContaining({ aud: tenant?.loginClientId, sub: 'olga.one', sid: expect.any(String) }),
    ]);
  });

  describe('doctor and schema, with the peers that npm adds', () => {
    beforeAll(async () => void (await alone.install(tarball)));

    it('finds nothing wrong with the values of the sandbox, in an env file', async () => {
      const variables = Object.entries(sandbox.environment('acme'));
      alone.write('host.env', variables.map(([name, value]) => `${name}="${value}"`).join('\n'));
      const said = await alone.run('node', ['--env-file=host.env', bin, 'doctor']);
      expect(said).toMatch(/^ok +options/m);
      expect(said).not.toContain('WRONG');
    });

    it('writes a schema of an event of the sandbox', async () => {
      const args = ['--env-file=host.env', bin, 'schema', '--event', 'world-2026'];
      expect(await alone.run('node', args)).toContain('export const exhibitorSchema = z.object({');
    });

    it('names three wrong values of options by code, and exits with 1', async () => {
      const { login, ...tenant } = sandbox.tenantOptions('acme');
      const wrong = {
        ...tenant,
        tenantId: 'other',
        login: { ...login, clientSecret: 'wrong', issuer: 'other' },
      };
      const options = JSON.stringify({ tenants: { acme: wrong } });
      alone.write('options.mjs', `export default async () => (${options})`);
      const { code, said } = await attempt('doctor', '--options', 'options.mjs', '--tenant', 'acme');
      expect(code).toBe(1);
      expect([...said.matchAll(/^WRONG +\w+ +([\w.]+):/gm)].map(([, option]) => option)).toEqual(
        expect.arrayContaining(['tenantId', 'login.issuer', 'login.clientSecret']),
      );
    });

    it('ends although the module of its options has left a timer and a connection open', async () => {
      alone.write(
        'open.mjs',
        `import { connect } from 'node:net';
        setInterval(() => undefined, 1000);
        connect(${new URL(sandbox.url).port}, '127.0.0.1');
        export default { tenant: ${JSON.stringify(sandbox.tenantOptions('acme'))} };`,
      );
      const { code, said } = await attempt('doctor', '--options', 'open.mjs');
      expect(code).toBe(0);
      expect(said).toMatch(/^unknown +cookies/m);
    });

    it('exits with 2 where it cannot run', async () => {
      expect(await attempt('doctor', '--config', 'none.json')).toEqual({
        code: 2,
        said: expect.stringContaining('nestjs-exhibitor doctor: none.json cannot be read (ENOENT)'),
      });
    });
  });
});
