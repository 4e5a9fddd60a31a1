/**
 * What importing the module and booting it adds to a Nest host that uses axios, in CPU time; each in a process of its own. The
 * package is built as it is published: one file, where the quick build writes one for each module.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { check, describeMachine, printTable, quartiles, show } from './harness.mjs';

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 11);

// undici and jose do the work itself, whoever calls them: they are loaded before and not counted.
const nest = ['@nestjs/core', '@nestjs/common', 'rxjs', 'axios'];
const engines = ['undici', 'jose'];
const dist = new URL('../../dist/index.js', import.meta.url).href;
const boot = (root) =>
  `const { NestFactory } = await import('@nestjs/core');
   const app = await NestFactory.createApplicationContext(${root}, { logger: false });`;
const tenant =
  "{ tenantId: 't', baseUrl: 'http://localhost', authUrl: 'http://localhost', clientId: 'c', clientSecret: 's' }";
const programs = {
  'Nest, rxjs and axios': ['', boot('class {}')],
  'and `nestjs-exhibitor`': [
    `const { ExhibitorModule } = await import('${dist}');`,
    boot(`ExhibitorModule.forRoot({ tenant: ${tenant} })`),
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
const part = (name, values) => show(quartiles(seen[name].map(values)), 0);
printTable(
  ['CPU time, ms: median (quartiles)', 'import of Nest, rxjs and axios', 'import of the module', 'boot'],
  Object.keys(programs).map((name) => [
    name,
    part(name, ({ nest: ms }) => ms),
    part(name, ({ own }) => own),
    part(name, ({ boot: ms }) => ms),
  ]),
);
// Both imports of one process, so that what the machine does meanwhile meets both alike.
const added = quartiles(Object.values(seen)[1].map((ms) => (ms.own / ms.nest) * 100));
check(
  'import of the module without undici and jose ≤ +10 % over Nest, rxjs and axios',
  `+${show(added)} %`,
  added.median <= 10,
);
console.log();

/** CPU milliseconds of the imports of Nest, of the module, and of the boot. */
function run(ownImport, program) {
  const cpu = '(({ user, system }) => (user + system) / 1000)(process.cpuUsage())';
  const source = `${nest.map((name) => `await import('${name}');`).join('')} const nest = ${cpu};
    ${engines.map((name) => `await import('${name}');`).join('')} const engines = ${cpu};
    ${ownImport} const own = ${cpu}; ${program}
    process.stdout.write(JSON.stringify({ nest, own: own - engines, boot: ${cpu} - own }));`;
  const cwd = fileURLToPath(new URL('../..', import.meta.url));
  const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', source], {
    cwd,
    encoding: 'utf8',
  });
  return JSON.parse(stdout);
}
