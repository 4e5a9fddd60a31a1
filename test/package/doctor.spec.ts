import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ExhibitorSandbox } from '../../lib/testing/index.js';
import { environment } from './host-process.js';
import { Outside, pack } from './tarball.js';

/** Installed without any package of a host: npm adds the peers. */
describe('the doctor of the packed tarball, in an empty folder', () => {
  const outside = new Outside();
  let sandbox: ExhibitorSandbox;
  beforeAll(async () => {
    const { tarball } = await pack();
    outside.write('package.json', { name: 'empty', private: true });
    await outside.install(tarball);
    sandbox = await ExhibitorSandbox.start();
  });
  afterAll(async () => {
    outside.remove();
    await sandbox?.stop();
  });

  /** The output of the command, and its exit code. */
  async function doctor(
    args: string[],
    env: NodeJS.ProcessEnv = {},
  ): Promise<{ code: unknown; said: string }> {
    try {
      const command = ['--no', 'nestjs-exhibitor', 'doctor', ...args];
      return { code: 0, said: await outside.run('npx', command, env) };
    } catch (error) {
      return { code: Object(Object(error)['cause'])['code'], said: String(error) };
    }
  }

  it('finds nothing wrong with the values of the sandbox, in the environment of the host of the README', async () => {
    const { code, said } = await doctor([], environment(sandbox, 'acme', {}, 3000));
    expect(said).toMatch(/^ok +options/m);
    expect(said).not.toContain('WRONG');
    expect(code).toBe(0);
  });

  it('names three wrong values, and exits with 1', async () => {
    const { login, ...tenant } = sandbox.tenantOptions('acme');
    const wrong = {
      ...tenant,
      tenantId: 'other',
      login: { ...login, clientSecret: 'wrong', issuer: 'other' },
    };
    outside.write(
      'options.mjs',
      `export default async () => (${JSON.stringify({ tenants: { acme: wrong } })})`,
    );
    const { code, said } = await doctor(['--options', 'options.mjs', '--tenant', 'acme']);
    expect(code).toBe(1);
    expect([...said.matchAll(/^WRONG +\w+ +([\w.]+):/gm)].map(([, option]) => option)).toEqual(
      expect.arrayContaining(['tenantId', 'login.issuer', 'login.clientSecret']),
    );
  });

  it('ends although the module of its options has left a timer and a connection open', async () => {
    const tenant = sandbox.tenantOptions('acme');
    outside.write(
      'open.mjs',
      `import { connect } from 'node:net';
      setInterval(() => undefined, 1000);
      connect(${new URL(sandbox.url).port}, '127.0.0.1');
      export default { tenant: ${JSON.stringify(tenant)} };`,
    );
    const { code, said } = await doctor(['--options', 'open.mjs']);
    expect(code).toBe(0);
    expect(said).toMatch(/^unknown +cookies/m);
  });

  it('exits with 2 where it cannot run', async () => {
    expect(await doctor(['--config', 'none.json'])).toEqual({
      code: 2,
      said: expect.stringContaining('nestjs-exhibitor doctor: none.json cannot be read (ENOENT)'),
    });
    expect(await doctor(['--verbose'])).toMatchObject({ code: 2 });
  });

  it('explains itself, and how it reads an env file', async () => {
    const { code, said } = await doctor(['--help']);
    expect(code).toBe(0);
    const [, ...command] = /node (--env-file=)FILE (\S+) (doctor)/.exec(said) ?? [];
    outside.write('host.env', 'TENANT_ID=acme');
    const run = outside.run('node', [`${command[0]}host.env`, ...command.slice(1)]);
    await expect(run).rejects.toThrow('baseUrl (BASE_URL), authUrl (AUTH_URL)');
    expect(said).toContain('Exit code: 0 nothing is wrong, 1 something is wrong, 2 the check could not run.');
  });

  it('can be called by code', async () => {
    const names = "import('nestjs-exhibitor/doctor').then((m) => console.log(Object.keys(m).join()))";
    expect((await outside.run('node', ['-e', names])).trim()).toBe('diagnose');
  });
});
