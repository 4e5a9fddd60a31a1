import { describe, expect, it } from '@jest/globals';
import { Clock } from '../../lib/time/clock.js';
import { Circuit } from '../../lib/transport/limits/circuit.js';
import { FailedContactPersons } from '../../lib/transport/limits/failed-contact-persons.js';
import { RequestLimits } from '../../lib/transport/limits/tenant-limits.js';
import { healthOf, type Failed, type Health, type Outcome } from '../../lib/transport/outcome.js';
import { Sender } from './transport-bench.js';

const failures = (circuit: Circuit, count: number, health: Health = 'bad'): void => {
  for (let request = 0; request < count; request += 1) {
    circuit.record(health, circuit.admit(0), 0, 1);
  }
};

describe('a circuit', () => {
  it('opens within 50 failures in a row', () => {
    const circuit = new Circuit();
    failures(circuit, 30);
    expect(circuit.admit(0)).toBe('free');
    failures(circuit, 20);
    expect(circuit.admit(0)).toEqual({ retryAfterMs: expect.any(Number) });
  });

  it('opens where most of many requests fail, although some succeed', () => {
    const circuit = new Circuit();
    for (let request = 0; request < 200; request += 1) {
      circuit.record(request % 4 === 0 ? 'good' : 'bad', 'free', 0, 1);
    }
    expect(circuit.refusal(0)).toBeDefined();
  });

  it('stays closed where a third of many requests fail', () => {
    const circuit = new Circuit();
    for (let request = 0; request < 1_000; request += 1) {
      circuit.record(request % 3 === 0 ? 'bad' : 'good', 'free', 0, 1);
    }
    expect(circuit.admit(0)).toBe('free');
  });

  it('allows one trial request within 10 s', () => {
    const circuit = new Circuit();
    failures(circuit, 50);
    expect(circuit.admit(3_000)).toEqual({ retryAfterMs: expect.any(Number) });
    expect(circuit.admit(10_000)).toBe('trial');
    expect(circuit.admit(10_000)).toEqual({ retryAfterMs: expect.any(Number) });
  });

  it('closes after a successful trial and opens after a failed one', () => {
    const well = new Circuit();
    failures(well, 50);
    well.record('good', well.admit(10_000), 10_000, 1);
    expect(well.admit(10_000)).toBe('free');

    const ill = new Circuit();
    failures(ill, 50);
    ill.record('bad', ill.admit(10_000), 10_000, 1);
    expect(ill.admit(10_000)).toEqual({ retryAfterMs: expect.any(Number) });
  });

  it('allows another trial where the first was aborted', () => {
    const circuit = new Circuit();
    failures(circuit, 50);
    circuit.record(undefined, circuit.admit(10_000), 10_000, 1);
    expect(circuit.admit(10_000)).toBe('trial');
  });

  it('ignores requests from before it opened', () => {
    const circuit = new Circuit();
    failures(circuit, 50);
    circuit.record('good', 'free', 0, 1);
    expect(circuit.refusal(0)).toBeDefined();
  });

  it('forgets failures after a hundred further requests', () => {
    const circuit = new Circuit();
    failures(circuit, 39);
    failures(circuit, 100, 'good');
    failures(circuit, 39);
    expect(circuit.admit(0)).toBe('free');
  });

  it('counts 5xx, broken connections and timeouts; not 4xx, malformed replies and aborts', () => {
    const answered = (status: number) =>
      healthOf({ kind: 'answered', status, headers: {}, body: undefined }, false);
    const failed = (why: Failed['why'], isTimeUp: boolean) =>
      healthOf({ kind: 'failed', why, message: '' }, isTimeUp);
    expect([500, 503, 599].map(answered)).toEqual(['bad', 'bad', 'bad']);
    expect([200, 401, 408, 429].map(answered)).toEqual(['good', 'good', 'good', 'good']);
    expect([failed('network', false), failed('timeout', false), failed('over', true)]).toEqual([
      'bad',
      'bad',
      'bad',
    ]);
    expect([failed('malformed', false), failed('over', false)]).toEqual(['good', undefined]);
    expect([failed('interceptor', false), failed('interceptor', true)]).toEqual([undefined, undefined]);
  });
});

describe('the failures of one contact', () => {
  const answered = (status: number): Outcome => ({
    kind: 'answered',
    status,
    headers: {},
    body: undefined,
  });
  const failed = (why: 'network' | 'timeout' | 'over'): Outcome => ({ kind: 'failed', why, message: '' });

  it('count once where the service answers 5xx or takes too long, until a lookup succeeds', () => {
    const contacts = new FailedContactPersons();
    for (const outcome of [answered(500), failed('timeout'), failed('over')]) {
      const counted = ['a', 'a', 'b', 'a', 'b'].map((contact) =>
        contacts.record({ health: 'bad', outcome, contact }),
      );
      expect(counted).toEqual([true, false, true, false, false]);
      expect(contacts.record({ health: 'good', outcome: answered(200), contact: 'c' })).toBe(true);
    }
  });

  it('always count where the connection fails, and where a request is about no contact', () => {
    const contacts = new FailedContactPersons();
    const network = { health: 'bad', outcome: failed('network'), contact: 'a' } as const;
    const list = { health: 'bad', outcome: answered(500), contact: undefined } as const;
    const left = { health: undefined, outcome: failed('over'), contact: 'a' } as const;
    for (const result of [network, network, list, list, left]) {
      expect(contacts.record(result)).toBe(true);
    }
    expect(contacts.record({ ...list, contact: 'a' })).toBe(true);
  });

  it('count as a trial each time: a service that is down is tried once in a pause', async () => {
    const limits = new RequestLimits('rest', 'http://service', new Clock());
    const result = { health: 'bad', outcome: answered(500), contact: 'a' } as const;
    const tenant = await Sender.with('http://localhost').tenant();
    expect(limits.leave(tenant, 'free', result)).toBe(true);
    expect(limits.leave(tenant, 'free', result)).toBe(false);
    expect(limits.leave(tenant, 'trial', result)).toBe(true);
  });
});
