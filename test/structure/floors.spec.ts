import { beforeAll, describe, expect, it } from '@jest/globals';
import { cruise, type ICruiseResult, type IForbiddenRuleType } from 'dependency-cruiser';

/** The floors of the design, lowest first. A folder imports only folders of its own floor or below. */
const FLOORS: readonly (readonly string[])[] = [
  ['tenants', 'options', 'errors', 'diagnostics'],
  ['transport', 'store'],
  ['tokens'],
  ['exhibitors'],
  ['login'],
  ['guards', 'decorators'],
];

const room = (names: readonly string[]): string => `^lib/(${names.join('|')})/`;

const upward: IForbiddenRuleType[] = FLOORS.slice(0, -1).map((floor, index) => ({
  name: `floor-${index}-imports-above`,
  severity: 'error',
  from: { path: room(floor) },
  to: { path: [room(FLOORS.slice(index + 1).flat()), '^lib/[^/]+\\.ts$', '^lib/(testing|terminus)/'] },
}));

const RULES: IForbiddenRuleType[] = [
  ...upward,
  { name: 'no-circle', severity: 'error', from: {}, to: { circular: true } },
  {
    name: 'aside-uses-the-public-surface',
    severity: 'error',
    from: { path: '^lib/(testing|terminus|redis)/' },
    to: { path: '^lib/', pathNot: ['^lib/index\\.ts$', '^lib/(testing|terminus|redis)/'] },
  },
  {
    name: 'transport-is-the-only-way-out',
    severity: 'error',
    from: { path: '^lib/', pathNot: ['^lib/(transport|testing)/', '^lib/options/http-options\\.interface'] },
    to: {
      path: '(^|node_modules/)(axios|undici|@nestjs/axios|node:https?)($|/)',
      dependencyTypesNot: ['type-only'],
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

describe('the imports of lib/', () => {
  let violations: readonly string[];
  beforeAll(async () => {
    const { output } = await cruise(['lib'], {
      ruleSet: { forbidden: [...RULES, BROKEN] },
      validate: true,
      tsPreCompilationDeps: true,
      doNotFollow: { path: 'node_modules' },
    });
    const { summary, modules } = output as ICruiseResult;
    expect(modules.length).toBeGreaterThan(40);
    violations = summary.violations.map(({ rule, from, to }) => `${rule.name}: ${from} → ${to}`);
  });

  const isBroken = (violation: string): boolean => violation.startsWith(`${BROKEN.name}: `);

  it('lead to the same floor or below, in no cycle, and to the network through transport only', () => {
    expect(violations.filter((violation) => !isBroken(violation))).toEqual([]);
  });

  it('are checked: a rule that the code breaks is reported', () => {
    expect(violations.filter(isBroken).length).toBeGreaterThan(0);
  });
});
