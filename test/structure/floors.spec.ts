import { describe, expect, it } from '@jest/globals';
import { cruise, type ICruiseResult, type IForbiddenRuleType } from 'dependency-cruiser';

/** The floors of the design, from the ground up. A room imports only rooms on its own floor or below. */
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

async function violationsIn(paths: string[], forbidden = RULES): Promise<string[]> {
  const { output } = await cruise(paths, {
    ruleSet: { forbidden },
    validate: true,
    tsPreCompilationDeps: true,
    doNotFollow: { path: 'node_modules' },
  });
  const { summary, modules } = output as ICruiseResult;
  expect(modules.length).toBeGreaterThan(40);
  return summary.violations.map(({ rule, from, to }) => `${rule.name}: ${from} → ${to}`);
}

describe('the rooms of lib/', () => {
  it('import only rooms on their floor or below, in no circle, and go out through transport alone', async () => {
    expect(await violationsIn(['lib'])).toEqual([]);
  });

  it('are really looked at: a rule the code breaks is reported', async () => {
    const upsideDown: IForbiddenRuleType = {
      name: 'guards-must-not-use-errors',
      severity: 'error',
      from: { path: '^lib/guards/' },
      to: { path: '^lib/errors/' },
    };
    expect((await violationsIn(['lib'], [upsideDown])).length).toBeGreaterThan(0);
  });
});
