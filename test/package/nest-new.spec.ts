import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import {
  readmeHost,
  readmeInstall,
  readmeJest,
  readmeSandboxInstall,
  readmeTest,
} from '../structure/readme.js';
import { Outside, pack } from './tarball.js';

const PNPM = ['npx', '--yes', 'pnpm@10'];

/** Installs the packages of the README's commands, and adds the tests of the README. */
async function complete(
  project: Outside,
  nest: 11 | 12,
  manager: 'npm' | 'pnpm',
  tarball: string,
): Promise<void> {
  // npm refuses a later package where the peers of an earlier one are too new for it; pnpm does not.
  const later = manager === 'npm' ? [['npm', 'install', `@nestjs/terminus@${nest}`]] : [];
  for (const command of [readmeInstall(nest), readmeSandboxInstall(), ...later]) {
    const [npm = '', install = '', ...rest] = command.map((word) =>
      word === 'nestjs-exhibitor' ? tarball : word,
    );
    const [program = '', ...args] = manager === 'npm' ? [npm, install] : [...PNPM, 'add'];
    await project.run(program, [...args, ...rest], { npm_config_prefer_offline: 'true' });
  }
  project.write('src/booth.controller.spec.ts', readmeTest('unit test'));
  project.write('test/booth.e2e-spec.ts', readmeTest('end-to-end test'));
  if (nest === 11) {
    project.edit('package.json', ({ jest, ...others }) => ({
      ...others,
      jest: { ...Object(jest), ...readmeJest() },
    }));
    project.edit('test/jest-e2e.json', (jest) => ({ ...jest, ...readmeJest() }));
  }
}

const PROJECTS = [
  [11, 'npm'],
  [11, 'pnpm'],
  [12, 'npm'],
] as const;

describe('in a stock project of nest new, after the install command of the README', () => {
  const projects = new Map<string, Outside>();
  let folder: string;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'exhibitor-pack-'));
    const { tarball } = await pack(folder);
    const scaffolds = { 11: new Outside(), 12: new Outside() };
    await Promise.all([scaffolds[11].scaffold(11), scaffolds[12].scaffold(12)]);
    await Promise.all(
      PROJECTS.map(async ([nest, manager]) => {
        const project = new Outside();
        project.copy(scaffolds[nest].folder);
        projects.set(`${nest} ${manager}`, project);
        await complete(project, nest, manager, tarball);
      }),
    );
    scaffolds[11].remove();
    scaffolds[12].remove();
  }, 600_000);
  afterAll(() => {
    projects.forEach((project) => project.remove());
    rmSync(folder, { recursive: true });
  });

  it.each(PROJECTS)(
    'the tests of the README pass and its host compiles, on Nest %i with %s',
    async (nest, manager) => {
      const project = projects.get(`${nest} ${manager}`);
      const plain = { FORCE_COLOR: '0', NO_COLOR: '1' };
      const unit = await project?.run('npm', ['test'], plain);
      const endToEnd = await project?.run('npm', ['run', 'test:e2e'], plain);
      // Files and tests, those of the README and the one that the project has.
      expect([unit, endToEnd].map((said) => said?.match(/\b\d+ passed/g))).toEqual([
        ['2 passed', '4 passed'],
        ['2 passed', '2 passed'],
      ]);
      project?.write('src/main.ts', readmeHost());
      await project?.run('npm', ['run', 'build']);
    },
  );
});
