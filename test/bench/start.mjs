/**
 * What importing the module and booting it adds to a Nest host that uses axios, in CPU time; each in a process of its own. The
 * package is built as it is published: one file, where `--quick` writes one for each module.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { check, describeMachine, printTable, quartiles, show } from './harness.mjs';

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 11);

const nest = ['@nestjs/core', '@nestjs/common', 'rxjs', 'axios'];
const dist = new URL('../../dist/index.js', import.meta.url).href;
const boot = (root) =>
  `const { NestFactory } = await import('@nestjs/core');
   const app = await NestFactory.createApplicationContext(${root}, { logger: false });`;
const tenant =
  "{ tenantId: 't', baseUrl: 'http://localhost', authUrl: 'http://localhost', clientId: 'c', clientSecret: 's' }";
const programs = {
  'Nest, rxjs and axios': [nest, boot('class {}')],
  'the same and `nestjs-exhibitor`': [
    [...nest, dist],
    `const { ExhibitorModule } = await import('${dist}'); ${boot(`ExhibitorModule.forRoot({ tenant: ${tenant} })`)}`,
  ],
};

execFileSync(process.execPath, [fileURLToPath(new URL('../../scripts/build.mjs', import.meta.url))]);
console.log(`## Start — ${describeMachine()}\n`);
const seen = Object.fromEntries(Object.keys(programs).map((name) => [name, []]));
for (let round = 0; round < ROUNDS; round += 1) {
  for (const [name, program] of Object.entries(programs)) {
    seen[name].push(run(...program));
  }
}
const imported = (name) => quartiles(seen[name].map(([first]) => first));
const booted = (name) => quartiles(seen[name].map(([first, all]) => all - first));
printTable(
  ['CPU time, ms: median (quartiles)', 'import', 'boot'],
  Object.keys(programs).map((name) => [name, show(imported(name), 0), show(booted(name), 0)]),
);
// The two of a round ran one after the other, so that what the machine did meanwhile met both alike.
const [without, together] = Object.values(seen);
const added = quartiles(together.map(([first], round) => (first / without[round][0] - 1) * 100));
check('import of the module ≤ +10 % over Nest, rxjs and axios', `+${show(added, 0)} %`, added.median <= 10);
console.log();

/** CPU milliseconds after the imports, and after the boot. */
function run(imports, program) {
  const cpu = '(({ user, system }) => (user + system) / 1000)(process.cpuUsage())';
  const source = `${imports.map((name) => `await import('${name}');`).join('')}
    const imported = ${cpu}; ${program} process.stdout.write(JSON.stringify([imported, ${cpu}]));`;
  const cwd = fileURLToPath(new URL('../..', import.meta.url));
  const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', source], {
    cwd,
    encoding: 'utf8',
  });
  return JSON.parse(stdout);
}
