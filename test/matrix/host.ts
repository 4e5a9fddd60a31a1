/** The host of a cell. */
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { readmeInstall, sandboxInstall } from '../structure/readme.js';
import { Outside, versions } from '../package/tarball.js';

/** A cell of `cells.json`, as `run.mjs` gives it. */
export interface Cell {
  node: string;
  nest: string;
  adapter: string;
  manager: string;
}

/** A variable that `run.mjs` sets. */
export function given(name: string): string {
  const value = process.env[name];
  if (value === undefined) {
    throw new Error(`${name} is not set: run npm run test:matrix`);
  }
  return value;
}

/**
 * A host in the folder of `run.mjs`: CommonJS on Nest 11 and ES modules on Nest 12, as `nest new` makes them. Installed and
 * compiled by the first cell that uses the folder.
 */
export async function prepareHost(nest: string, manager: string): Promise<Outside> {
  const host = new Outside(given('MATRIX_HOST'));
  if (existsSync(join(host.folder, 'built/main.js'))) {
    return host;
  }
  host.copy('test/package/hosts/app');
  if (nest === '12') {
    host.edit('package.json', (manifest) => ({ ...manifest, type: 'module' }));
    rmSync(join(host.folder, 'app.spec.ts'));
  }
  await install(host, manager, packagesFor(nest));
  await host.compile();
  return host;
}

/** What the README tells to install, and what a Nest application has already. */
function packagesFor(nest: string): string[] {
  const readme = [...readmeInstall(nest === '11' ? 11 : 12).slice(2), ...sandboxInstall().slice(3)];
  return [
    ...readme.map((name) => (name === 'nestjs-exhibitor' ? given('MATRIX_TARBALL') : name)),
    ...['common', 'core', 'platform-express', 'platform-fastify', 'terminus', 'testing'].map(
      (name) => `@nestjs/${name}@^${nest}`,
    ),
    ...versions('reflect-metadata', 'rxjs', '@types/node', '@types/express', '@types/jest'),
    ...(nest === '11' ? ['typescript@~5.9', 'jest@^30', 'ts-jest@^29'] : versions('typescript')),
  ];
}

async function install(host: Outside, manager: string, packages: string[]): Promise<void> {
  if (manager === 'pnpm') {
    await host.run('node', [given('MATRIX_PNPM'), 'add', '--prefer-offline', ...packages]);
  } else {
    await host.install(...packages);
  }
}
