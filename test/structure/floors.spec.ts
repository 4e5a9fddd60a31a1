import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { cruise, type ICruiseResult, type IForbiddenRuleType } from 'dependency-cruiser';
import { ROOT } from './readme.js';

/** The floors of `lib/`, from the ground up, as in CONTRIBUTING.md. A room imports only rooms on lower floors. */
const FLOORS: readonly (readonly string[])[] = [
  ['errors'],
  ['time', 'diagnostics', 'model'],
  ['options', 'http'],
  ['problems'],
  ['store'],
  ['tenants'],
  ['transport'],
  ['tokens'],
  ['exhibitors'],
  ['oidc'],
  ['session'],
  ['login'],
  ['guards'],
  ['decorators'],
];

/** Folders beside the floors. They use the public surface; the doctor runs the services of the module. */
const ASIDE = ['testing', 'redis', 'terminus', 'doctor', 'mirror', 'opentelemetry', 'bin'];

/**
 * The testing module reads ids and stands in for the service, and the sandbox host names and the variables of a host, as the service itself. The mirror digests
 * records, and checks ids of events, as the module.
 */
const CHECKS =
  '^lib/(exhibitors/exhibitor-id|model/(path-parameters|digest|json-values|host-variables|loopback|stand-in.interface))\\.ts$';

const room = (names: readonly string[]): string => `^lib/(${names.join('|')})/`;
const TOP = '^lib/[^/]+\\.ts$';

const upward: IForbiddenRuleType[] = FLOORS.flatMap((floor, index) =>
  floor.map((name) => ({
    name: `${name}-imports-only-lower-floors`,
    severity: 'error' as const,
    from: { path: room([name]) },
    to: {
      path: [
        room(
          FLOORS.slice(index)
            .flat()
            .filter((other) => other !== name),
        ),
        TOP,
        room(ASIDE),
      ].filter((path) => path !== room([])),
    },
  })),
);

const RULES: IForbiddenRuleType[] = [
  ...upward,
  {
    name: 'hosts-load-only-what-they-import',
    severity: 'error',
    from: { path: TOP },
    to: { path: room(ASIDE) },
  },
  { name: 'no-circle', severity: 'error', from: {}, to: { circular: true } },
  {
    name: 'aside-uses-the-public-surface',
    severity: 'error',
    from: { path: room(ASIDE), pathNot: room(['doctor']) },
    to: { path: '^lib/', pathNot: ['^lib/index\\.ts$', room(ASIDE), CHECKS] },
  },
  {
    name: 'only-transport-uses-the-network',
    severity: 'error',
    from: {
      path: '^lib/',
      pathNot: ['^lib/(transport|testing|doctor)/', '^lib/options/tenant-options\\.interface'],
    },
    to: {
      path: '(^|node_modules/)(axios|undici|@nestjs/axios|node:https?)($|/)',
      dependencyTypesNot: ['type-only'],
    },
  },
  {
    // By `import()`, so that importing this package does not take the time to load them.
    name: 'loads-jose-and-passport-when-first-needed',
    severity: 'error',
    from: { path: '^lib/', pathNot: ['^lib/testing/'] },
    to: {
      path: '(^|node_modules/)(jose|passport|passport-openidconnect|@nestjs/passport)($|/)',
      dependencyTypesNot: ['type-only'],
      dynamic: false,
    },
  },
];

/** A rule the code breaks, which shows that rules are checked. */
const BROKEN: IForbiddenRuleType = {
  name: 'guards-must-not-use-errors',
  severity: 'error',
  from: { path: '^lib/guards/' },
  to: { path: '^lib/errors/' },
};

/** Files below a folder, with their number of lines. */
function filesOf(folder: string): { name: string; lines: number }[] {
  return readdirSync(join(ROOT, folder), { withFileTypes: true }).flatMap((entry) => {
    const name = `${folder}/${entry.name}`;
    return entry.isDirectory()
      ? filesOf(name)
      : [{ name, lines: readFileSync(join(ROOT, name), 'utf8').trimEnd().split('\n').length }];
  });
}

describe('the rooms of lib/', () => {
  let violations: readonly string[];
  beforeAll(async () => {
    // The sample for its circles only.
    const { output } = await cruise(['lib', 'sample'], {
      ruleSet: { forbidden: [...RULES, BROKEN] },
      validate: true,
      tsPreCompilationDeps: true,
      doNotFollow: { path: 'node_modules' },
      exclude: { path: '^sample/dist' },
    });
    const { summary, modules } = output as ICruiseResult;
    expect(modules.length).toBeGreaterThan(40);
    violations = summary.violations.map(({ rule, from, to }) => `${rule.name}: ${from} → ${to}`);
  });

  const isBroken = (violation: string): boolean => violation.startsWith(`${BROKEN.name}: `);

  it('import only lower floors, without circles, use the network only in transport, and load large packages when first needed', () => {
    expect(violations.filter((violation) => !isBroken(violation))).toEqual([]);
  });

  it('are checked: a rule that the code breaks is reported', () => {
    expect(violations.filter(isBroken).length).toBeGreaterThan(0);
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
    expect(filesOf('lib').filter(({ lines }) => lines > 250)).toEqual([]);
  });

  it('have at most 10 files under 25 lines, besides errors and interfaces', () => {
    const small = filesOf('lib').filter(
      ({ name, lines }) => lines < 25 && !/(\.error|\.interface|\/index)\.ts$/.test(name),
    );
    expect(small.length).toBeLessThanOrEqual(10);
  });
});
