/** The health checks of docs/operations.md, asked over HTTP while the sandbox fails. */
import type { Type } from '@nestjs/common';
import type { HealthIndicatorService } from '@nestjs/terminus';
import { Test } from '@nestjs/testing';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { ExhibitorsService, TenantRegistry, TokenService } from '../../lib/index.js';
import {
  ExhibitorHealthIndicator,
  type ExhibitorHealthOptions,
} from '../../lib/integrations/terminus/index.js';
import { ExhibitorTestingBackend, ExhibitorTestingModule } from '../../lib/development/testing/index.js';
import { leaksOf } from '../setup/leaks.js';
import { clockOf } from '../support/clock.js';
import { acmeOptions, startHost } from '../support/host.js';
import { useHost, useSandbox } from '../support/lifetimes.js';
import { nativeRequire } from '../support/native-require.js';
import { loadSnippets } from '../support/snippets.js';
import { stall } from '../support/faults.js';
import { pause } from '../support/wait.js';

// A request that was sent opens no circuit, also where the reply asks for a pause.
const FAILING = { kind: 'status', status: 503, headers: { 'retry-after': '60' } } as const;

const { HealthModule } = await loadSnippets<{ HealthModule: Type }>('operations.md', 'health');
const sandbox = await useSandbox();

describe('the health of a host', () => {
  // One attempt a call: without waits.
  const options = acmeOptions(sandbox, { isGlobal: true, http: { attempts: 1 } });
  const host = useHost(() => startHost({ importedAfter: [HealthModule], options }));

  beforeEach(() => {
    sandbox.clearRequests();
    clockOf(host.app).back();
    host.app.get(TenantRegistry).forget('default');
  });

  async function ask(route: 'live' | 'ready' | 'service'): Promise<Record<string, unknown>> {
    const reply = await fetch(`${host.url}/health/${route}`);
    const body = (await reply.json()) as { status: string; details: Record<string, Record<string, unknown>> };
    expect(leaksOf(body)).toEqual([]);
    return { http: reply.status, overall: body.status, ...Object.values(body.details)[0] };
  }
  const check = (given: ExhibitorHealthOptions) =>
    host.app.get(ExhibitorHealthIndicator, { strict: false }).isHealthy('checked', given);
  const sent = (operation: string) => sandbox.requests.filter((request) => request.operation === operation);

  it('is seen by its probes', async () => {
    expect(await ask('live')).toEqual({ http: 200, overall: 'ok' });
    expect(sandbox.requests).toHaveLength(0);
    const up = { http: 200, overall: 'ok', status: 'up', circuit: 'closed' };
    expect(await ask('ready')).toMatchObject(up);
    expect(await ask('service')).toMatchObject(up);
    const list = '/api/v1/exhibitor/event/world-2026';
    expect(sent('list').map(({ path, query }) => [path, query['ItemsPerPage']])).toEqual([[list, '1']]);
    sandbox.failNext('list', FAILING, Infinity);
    const down = { http: 503, overall: 'error', status: 'down', code: 'service_unavailable' };
    expect(await ask('service')).toMatchObject(down);
    expect(await ask('live')).toMatchObject({ http: 200 });
    expect(await ask('ready')).toMatchObject(up);
    expect(sent('token')).toHaveLength(1);
  });

  it('is proven by the token that is held, also while the token endpoint fails', async () => {
    await host.app.get(TokenService).getToken();
    sandbox.failNext('token', FAILING, Infinity);
    expect(await ask('ready')).toEqual({ http: 200, overall: 'ok', status: 'up', circuit: 'closed' });
    expect(sent('token')).toHaveLength(1);
    clockOf(host.app).skip(3_600_000);
    expect(await ask('ready')).toMatchObject({ http: 503, status: 'down', code: 'token_unavailable' });
  });

  it('runs on Terminus 11', async () => {
    const terminus11: { HealthIndicatorService: new () => HealthIndicatorService } = nativeRequire(
      'terminus11/dist/health-indicator/health-indicator.service.js',
    );
    const indicator = new ExhibitorHealthIndicator(
      new terminus11.HealthIndicatorService(),
      host.app.get(TokenService),
      host.app.get(ExhibitorsService),
    );
    expect(await indicator.isHealthy('it')).toEqual({ it: { status: 'up', circuit: 'closed' } });
    sandbox.failNext('token', FAILING, Infinity);
    clockOf(host.app).skip(3_600_000);
    const down = { status: 'down', code: 'token_unavailable', circuit: 'closed' };
    expect(await indicator.isHealthy('it')).toEqual({ it: down });
  });

  it('is down before a kubelet gives up, and sends nothing while the first request is open', async () => {
    sandbox.failNext('token', stall('before-headers'), Infinity);
    const startedAt = performance.now();
    expect(await ask('ready')).toMatchObject({ http: 503, status: 'down', code: 'deadline_exceeded' });
    expect(performance.now() - startedAt).toBeGreaterThan(790);
    // In this process, so that a slow machine is late with both.
    const answer = check({});
    expect(await Promise.race([answer, pause(900).then(() => 'the kubelet gave up')])).toEqual({
      checked: { status: 'down', code: 'deadline_exceeded', circuit: 'closed' },
    });
    expect(await check({ timeout: 50 })).toMatchObject({ checked: { status: 'down' } });
    expect(sent('token')).toHaveLength(1);
  });

  it('opens no circuit of a service that is slower than its timeout', async () => {
    sandbox.failNext({ operation: ['token', 'list'] }, { kind: 'delay', ms: 60 }, Infinity);
    for (let probes = 0; probes < 45; probes += 1) {
      const late = { checked: { status: 'down', code: 'deadline_exceeded', circuit: 'closed' } };
      expect(await check({ eventId: 'world-2026', timeout: 5 })).toEqual(late);
    }
    expect(await ask('service')).toMatchObject({ status: 'up', circuit: 'closed' });
  });

  it('does not storm a service that cannot be reached', async () => {
    sandbox.failNext('token', { kind: 'reset' }, Infinity);
    let found: Record<string, unknown> = {};
    for (let probes = 0; probes < 45; probes += 1) {
      found = await ask('ready');
    }
    expect(found).toMatchObject({ http: 503, status: 'down', code: 'token_unavailable' });
    // After a failure there is no token request for a second. One that is reset is replayed once.
    expect(sent('token').length).toBeLessThanOrEqual(20);
  });

  it.each([
    [{ eventId: 'no-such-event' }, 'not_found'],
    [{ eventId: '..' }, 'invalid_argument'],
    [{ tenant: 'nobody' }, 'unknown_tenant'],
  ])('is down for %j: %s', async (given, code) => {
    expect(await check(given)).toEqual({ checked: { status: 'down', code, circuit: 'closed' } });
  });

  it('is that of the testing module in tests of a host', async () => {
    const module = await Test.createTestingModule({
      imports: [ExhibitorTestingModule.forRoot(), HealthModule],
    }).compile();
    const indicator = module.get(ExhibitorHealthIndicator, { strict: false });
    expect(await indicator.isHealthy('it')).toMatchObject({ it: { status: 'up' } });
    module.get(ExhibitorTestingBackend).failNext('token', 'token_unavailable');
    const down = { status: 'down', code: 'token_unavailable' };
    expect(await indicator.isHealthy('it')).toMatchObject({ it: down });
    await module.close();
  });
});
