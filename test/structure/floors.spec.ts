import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { ROOT } from './readme.js';

/** The floors of `lib/`, from the ground up, as in CONTRIBUTING.md. A room imports only rooms on lower floors. */
const FLOORS: readonly (readonly string[])[] = [
  ['errors'],
  ['call'],
  ['model'],
  ['browser'],
  ['config'],
  ['store'],
  ['http'],
  ['tokens', 'oidc'],
  ['exhibitors', 'login'],
  ['nest'],
];

/**
 * Folders beside the floors. They use the public surface; the doctor runs the services of the module, and the testing module replaces
 * some by their tokens.
 */
const ASIDE = ['integrations', 'development'];

/**
 * The sandbox reads addresses, host names and the variables of a host, as the service itself. The mirror digests records, and checks ids of
 * events, as the module. OpenTelemetry hides the same addresses as the log.
 */
const CHECKS = /^model\/(path-parameters|digest|json-values|host-variables|urls)\.ts$/;

/** An import of a file of `lib/`: of another one, or of a package. */
interface Import {
  from: string;
  to: string;
  isType: boolean;
  isDynamic: boolean;
}

const IMPORT = /^(?:import|export)( type)?(?: [^;']*? from)? '([^']+)'|\b(typeof )?import\('([^']+)'\)/gm;

function importsOf(from: string): Import[] {
  const text = readFileSync(join(ROOT, 'lib', from), 'utf8');
  return [...text.matchAll(IMPORT)].map(([, type, name, typeOf, loaded]) => {
    const given = name ?? loaded ?? '';
    const to = given.startsWith('.') ? join(dirname(from), given.replace(/js$/, 'ts')) : given;
    return { from, to, isType: (type ?? typeOf) !== undefined, isDynamic: name === undefined };
  });
}

const FILES = readdirSync(join(ROOT, 'lib'), { recursive: true, encoding: 'utf8' }).filter((name) =>
  name.endsWith('.ts'),
);
const IMPORTS = FILES.flatMap(importsOf);

/** The room of a file; empty for the files directly in `lib/`. */
const roomOf = (file: string): string => (file.includes('/') ? (file.split('/')[0] ?? '') : '');
const floorOf = (file: string): number => FLOORS.findIndex((floor) => floor.includes(roomOf(file)));
const isAside = (file: string): boolean => ASIDE.includes(roomOf(file));
const isLocal = (file: string): boolean => FILES.includes(file);

/** Rules, and whether an import breaks them. */
const RULES: Record<string, (one: Import) => boolean> = {
  'a room imports only lower floors': ({ from, to }) =>
    floorOf(from) >= 0 &&
    isLocal(to) &&
    roomOf(to) !== roomOf(from) &&
    !(floorOf(to) >= 0 && floorOf(to) < floorOf(from)),
  'hosts load only what they import': ({ from, to }) => roomOf(from) === '' && isAside(to),
  'aside uses the public surface': ({ from, to }) =>
    isAside(from) &&
    !/^development\/(doctor|testing)\//.test(from) &&
    isLocal(to) &&
    !(to === 'index.ts' || isAside(to) || CHECKS.test(to)),
  'only http uses the network': ({ from, to, isType }) =>
    /^(axios|undici|@nestjs\/axios|node:https?)$/.test(to) &&
    !isType &&
    // That one reads the names of statuses.
    from !== 'nest/to-http-exception.ts' &&
    !['http', 'development'].includes(roomOf(from)),
  // By `import()`, so that importing this package does not take the time to load them.
  'jose and passport are loaded when first needed': ({ from, to, isType, isDynamic }) =>
    /^(jose|passport|passport-openidconnect|@nestjs\/passport)$/.test(to) &&
    !isType &&
    !isDynamic &&
    !from.startsWith('development/sandbox/'),
};

function violationsOf(rules: typeof RULES): string[] {
  return Object.entries(rules).flatMap(([rule, isBroken]) =>
    IMPORTS.filter(isBroken).map(({ from, to }) => `${rule}: ${from} → ${to}`),
  );
}

describe('the rooms of lib/', () => {
  it('import only lower floors, use the network only in http, and load large packages when first needed', () => {
    expect(violationsOf(RULES)).toEqual([]);
  });

  it('are checked: a rule that the code breaks is reported', () => {
    expect(IMPORTS.length).toBeGreaterThan(1_000);
    const broken = ({ from, to }: Import) => roomOf(from) === 'nest' && roomOf(to) === 'errors';
    expect(violationsOf({ 'nest uses no errors': broken }).length).toBeGreaterThan(0);
  });

  it('are all on a floor', () => {
    const folders = readdirSync(join(ROOT, 'lib'), { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => name);
    expect(folders.toSorted()).toEqual([...FLOORS.flat(), ...ASIDE].toSorted());
  });

  it('are listed in CONTRIBUTING.md on the same floors', () => {
    const rows = readFileSync(join(ROOT, 'CONTRIBUTING.md'), 'utf8').matchAll(/^\| (\d+) +\| `(\w+)\/`/gm);
    const listed = FLOORS.map((): string[] => []);
    for (const [, floor, name = ''] of rows) {
      listed[Number(floor)]?.push(name);
    }
    expect(listed.map((names) => names.toSorted())).toEqual(FLOORS.map((names) => names.toSorted()));
  });

  it('have at most 250 lines a file', () => {
    const linesOf = (name: string) =>
      readFileSync(join(ROOT, 'lib', name), 'utf8')
        .trimEnd()
        .split('\n').length;
    expect(FILES.filter((name) => linesOf(name) > 250)).toEqual([]);
  });
});
