import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { checkOptions } from '../../lib/options/check-options.js';
import { addressProblem } from '../../lib/problems/address-problems.js';
import { ProblemLog } from '../../lib/problems/problem-log.service.js';
import type { Problem } from '../../lib/problems/problem.interface.js';
import { OperatorLines } from '../support/operator-lines.js';
import { StoppedClock } from '../support/clock.js';
import { registryOf } from '../support/registry.js';
import { tenantAt } from '../transport/transport-bench.js';

const lines = new OperatorLines();
beforeAll(() => Logger.overrideLogger(lines));
beforeEach(() => lines.clear());
afterAll(() => Logger.overrideLogger(['fatal']));

const PROBLEM: Problem = {
  cause: 'issuer',
  options: ['login.issuer'],
  message: 'the ID token is refused',
  expected: 'https://good.example',
  received: 'https://other.example',
};

describe('the operator log', () => {
  let clock: StoppedClock;
  const start = (options: unknown) => {
    clock = new StoppedClock();
    const checked = checkOptions(options);
    return { log: new ProblemLog(checked, clock), registry: registryOf(checked, clock) };
  };
  const two = () =>
    start({ tenants: { acme: tenantAt('https://a.example'), beta: tenantAt('https://b.example') } });

  it.each([
    ['tenant', { tenant: tenantAt('https://a.example') }],
    ['tenants.default', { tenants: { default: tenantAt('https://a.example') } }],
    [
      'tenants.default',
      { tenants: { find: () => tenantAt('https://a.example') }, allowedOrigins: () => true },
    ],
  ])('calls the tenant %s', async (path, options) => {
    const { log, registry } = start(options);
    log.report(await registry.get('default'), PROBLEM);
    expect(lines.errors).toEqual([expect.stringMatching(new RegExp(`^${path}\\.login\\.issuer: `))]);
  });

  it('has one line a minute for each tenant and cause', async () => {
    const { log, registry } = two();
    const [acme, beta] = [await registry.get('acme'), await registry.get('beta')];
    const countAfter = (ms: number): number => {
      lines.clear();
      clock.time += ms;
      log.report(acme, PROBLEM);
      log.report(acme, { ...PROBLEM, received: 'https://third.example' });
      log.report(acme, { ...PROBLEM, cause: 'audience' });
      log.report(beta, PROBLEM);
      return lines.errors.length;
    };
    expect(countAfter(0)).toBe(3);
    expect(countAfter(59_999)).toBe(0);
    expect(countAfter(1)).toBe(3);
  });

  it('does not wait for the minute once the tenant was forgotten, perhaps for other options', async () => {
    const { log, registry } = two();
    log.report(await registry.get('acme'), PROBLEM);
    registry.forget('acme');
    log.report(await registry.get('acme'), PROBLEM);
    expect(lines.errors).toHaveLength(2);
  });

  it('marks what a browser delivered, as a warning with a limit of its own', async () => {
    const { log, registry } = two();
    const acme = await registry.get('acme');
    log.report(acme, { ...PROBLEM, isUnverified: true });
    log.report(acme, { ...PROBLEM, isUnverified: true });
    expect(lines.errors).toEqual([]);
    expect(lines.warnings).toEqual([
      expect.stringMatching(/\(unverified: the browser or the client delivered it\)$/),
    ]);
    log.report(acme, PROBLEM);
    expect(lines.errors).toHaveLength(1);
  });

  it('cuts text from outside, and removes control characters and e-mail addresses', async () => {
    const { log, registry } = two();
    log.report(await registry.get('acme'), {
      ...PROBLEM,
      message: 'refused\u001b[2J\nERROR forged for pat@example.com',
      received: `x\r\n${'y'.repeat(5_000)}`,
    });
    const [line = ''] = lines.errors;
    expect(line).toContain('refused [2J ERROR forged for [removed]');
    expect(line).not.toMatch(/[\p{Cc}@]/u);
    expect(line.length).toBeLessThan(700);
  });
});

describe('an address that cannot be reached', () => {
  const withLogin = (login: object, endpoints = {}) => ({
    ...tenantAt('https://a.example'),
    endpoints,
    login: {
      clientId: 'web',
      redirectUri: 'https://host.example/callback',
      issuer: 'https://a.example',
      ...login,
    },
  });
  const discovered = withLogin({ discovery: true });
  const own = withLogin({ keys: 'https://a.example/jwks' }, { token: 'https://a.example/token' });

  it.each([
    ['list', discovered, 'baseUrl'],
    // The API client knows no discovery.
    ['token', discovered, 'authUrl'],
    ['token', own, 'endpoints.token'],
    ['code', discovered, 'login.discovery'],
    ['code', own, 'endpoints.token'],
    ['metadata', discovered, 'login.issuer'],
    ['keys', discovered, 'login.discovery'],
    ['keys', own, 'login.keys'],
    ['userinfo', own, 'authUrl'],
  ])('of the operation %s is that of an option', (operation, options, option) => {
    const checked = checkOptions({ tenant: options, secrets: ['0123456789abcdef0123456789abcdef'] });
    const [tenant] = registryOf(checked, new StoppedClock()).fixed;
    const failed = {
      operation,
      url: 'https://a.example/x',
      why: 'network',
      phase: 'connecting',
      message: '',
    };
    expect(tenant && addressProblem(tenant, failed)).toMatchObject({ options: [option] });
  });
});
