import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import {
  hostFiles,
  jestSettings,
  namedSnippets,
  readmeInstall,
  sandboxInstall,
} from '../structure/readme.js';
import { logInByTheCommand } from './host-process.js';
import { Outside, pack } from './tarball.js';

/** Own files without `.js`, which the Jest of a CommonJS project does not find. */
const forNest11 = (code: string): string => code.replaceAll(/(from '\.[^']+)\.js'/g, "$1'");

/** Installs the packages of the README's commands, and adds the tests of docs/testing.md. */
async function complete(project: Outside, nest: 11 | 12, tarball: string): Promise<void> {
  // npm refuses a later package where the peers of an earlier one are too new for it.
  const later = ['npm', 'install', `@nestjs/terminus@${nest}`];
  for (const command of [readmeInstall(nest), sandboxInstall(), later]) {
    const [npm = '', ...args] = command.map((word) => (word === 'nestjs-exhibitor' ? tarball : word));
    await project.run(npm, args, { npm_config_prefer_offline: 'true' });
  }
  project.write('src/booth.controller.spec.ts', namedSnippets('docs/testing.md', 'unit test')[0]);
  const inProject = nest === 11 ? forNest11 : (code: string) => code;
  project.write('src/host.spec.ts', inProject(namedSnippets('README.md', 'host test')[0]));
  // In place of the one of the project, which expects its AppModule.
  project.write('test/app.e2e-spec.ts', inProject(namedSnippets('docs/testing.md', 'app test')[0]));
  project.write('test/booth.e2e-spec.ts', namedSnippets('docs/testing.md', 'end-to-end test')[0]);
  if (nest === 11) {
    project.edit('package.json', ({ jest, ...others }) => ({
      ...others,
      jest: { ...Object(jest), ...jestSettings() },
    }));
    project.edit('test/jest-e2e.json', (jest) => ({ ...jest, ...jestSettings() }));
  }
}

const PROJECTS = { 11: new Outside(), 12: new Outside() };

describe('in a stock project of nest new, after the install command of the README', () => {
  beforeAll(async () => {
    const scaffolded = ([11, 12] as const).map((nest) => PROJECTS[nest].scaffold(nest));
    const [{ tarball }] = await Promise.all([pack(), ...scaffolded]);
    await Promise.all(([11, 12] as const).map((nest) => complete(PROJECTS[nest], nest, tarball)));
  }, 600_000);
  afterAll(() => Object.values(PROJECTS).forEach((project) => project.remove()));

  it.each([11, 12] as const)(
    'the documented tests pass, and a person logs in at the host of the README, on Nest %i',
    async (nest) => {
      const project = PROJECTS[nest];
      hostFiles().forEach(([path, code]) => project.write(path, nest === 11 ? forNest11(code) : code));
      const plain = { FORCE_COLOR: '0', NO_COLOR: '1' };
      const unit = await project.run('npm', ['test'], plain);
      const endToEnd = await project.run('npm', ['run', 'test:e2e'], plain);
      // Files and tests, the documented ones and the one that the project has.
      expect([unit, endToEnd].map((said) => said.match(/\b\d+ passed/g))).toEqual([
        ['3 passed', '5 passed'],
        ['2 passed', '2 passed'],
      ]);
      await project.run('npm', ['run', 'build']);
      await logInByTheCommand(project);
    },
  );
});
