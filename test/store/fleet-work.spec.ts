import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import type { StoreMessage } from '../../lib/index.js';
import { checkOptions } from '../../lib/options/check-options.js';
import { FleetWork, lookAgainAfter, type SharedWork } from '../../lib/store/fleet-work.service.js';
import { Sealer } from '../../lib/store/sealer.service.js';
import { SharedValues } from '../../lib/store/shared-values.service.js';
import { Clock } from '../../lib/time/clock.js';
import { Deadline } from '../../lib/time/deadline.js';
import { eventually, pause } from '../support/wait.js';
import { MemoryStore, valueOf } from './memory-store.js';

let store: MemoryStore;
let messages: StoreMessage[];
const collect = (message: unknown): void => void messages.push(message as StoreMessage);
const deadlines: Deadline[] = [];
beforeEach(() => {
  store = new MemoryStore();
  messages = [];
  subscribe('nestjs-exhibitor:store', collect);
});
afterEach(() => {
  unsubscribe('nestjs-exhibitor:store', collect);
  for (const deadline of deadlines.splice(0)) {
    deadline.close();
  }
  jest.restoreAllMocks();
});

/** Number of questions of the fleet. */
let asked: number;
beforeEach(() => {
  asked = 0;
});

/** One process: its part of the fleet's work for the value `answer`. */
class Process {
  readonly clock = new Clock();
  readonly values: SharedValues;
  readonly fleet: FleetWork;
  deadline: Deadline;

  constructor(ms = 10_000) {
    const tenant = {
      tenantId: 'acme',
      baseUrl: 'https://api.example',
      authUrl: 'https://login.example',
      clientId: 'acme-api',
      clientSecret: 'secret',
    };
    const options = checkOptions({ tenant, secrets: ['a secret of the fleet tests, 32 characters'], store });
    this.values = new SharedValues(options, new Sealer(options, this.clock), this.clock);
    this.fleet = new FleetWork(this.values, this.clock);
    this.deadline = Deadline.start(this.clock, ms);
    deadlines.push(this.deadline);
  }

  /** Asks with `ask`, unless another process answers. */
  run(ask: () => Promise<string>, name = 'work'): Promise<{ value: string; source: string }> {
    const work: SharedWork<string> = {
      kind: 'value',
      name,
      find: async () => {
        const found = await valueOf(this.values, 'value', name);
        if (found === 'refused') {
          throw new Error('refused elsewhere');
        }
        return typeof found === 'string' ? found : undefined;
      },
      ask: async () => {
        asked += 1;
        const value = await ask();
        await this.values.set('value', name, value, 60_000);
        return value;
      },
    };
    return this.fleet.run(work, this.deadline);
  }
}

const fleet = (count: number, ms?: number): Process[] => Array.from({ length: count }, () => new Process(ms));
const soon = (value: string) => async (): Promise<string> => {
  await pause(60);
  return value;
};
const never = (): Promise<string> => new Promise(() => undefined);
const leases = (): number[] =>
  [...store.raw].filter(([key]) => key.includes('value-lease')).map(([, { until }]) => until);

describe('work of a fleet', () => {
  it('is done by one process, and the others get its result', async () => {
    const results = await Promise.all(fleet(8).map((one, index) => one.run(soon(`of ${index}`))));
    expect(asked).toBe(1);
    expect(new Set(results.map(({ value }) => value)).size).toBe(1);
    expect(results.map(({ source }) => source).toSorted()).toEqual([
      'asked',
      ...Array.from({ length: 7 }, () => 'waited'),
    ]);
    const { value, source } = await new Process().run(soon('late'));
    expect([value === results[0]?.value, source, asked]).toEqual([true, 'found', 1]);
    expect(messages.filter(({ outcome }) => outcome === 'leased')).toEqual([
      { kind: 'value', outcome: 'leased' },
    ]);
    expect(messages.filter(({ outcome }) => outcome === 'waited')).toHaveLength(7);
  });

  it('is separate by name: a lease that outlives its work delays no other', async () => {
    const [one, other] = [new Process(), new Process()];
    await one.run(soon('a'), 'replaces nothing');
    expect(leases()).toHaveLength(1);
    expect(await other.run(soon('b'), 'replaces a')).toMatchObject({ value: 'b', source: 'asked' });
  });

  it('is waited for while its lease is set again, also longer than a lease lasts', async () => {
    const [one, other] = [new Process(), new Process()];
    let finish = (_value: string): void => undefined;
    const asking = one.run(() => new Promise((resolve) => (finish = resolve)));
    await eventually(() => asked === 1);
    const waiting = other.run(soon('impatient'));
    for (let turn = 0; turn < 3; turn++) {
      store.skip(600);
      const [before = 0] = leases();
      await eventually(() => (leases()[0] ?? 0) > before + 300);
    }
    finish('slow');
    expect(await Promise.all([asking, waiting])).toMatchObject([
      { source: 'asked' },
      { value: 'slow', source: 'waited' },
    ]);
    expect(asked).toBe(1);
  });

  it('is taken over by one process when the lease of a killed one lapses', async () => {
    // A process that was killed right after it took the lease.
    await new Process().values.set('value-lease', '0:work', true, 1_000);
    const results = fleet(4).map((one) => one.run(soon('taken over')));
    await pause(100);
    expect(asked).toBe(0);
    store.skip(1_000);
    expect((await Promise.all(results)).map(({ value }) => value)).toEqual(
      Array.from({ length: 4 }, () => 'taken over'),
    );
    expect(asked).toBe(1);
  });

  it('is done by one more process after half of the deadline, although the holder is alive', async () => {
    const holder = new Process();
    void holder.run(never).catch(() => undefined);
    await eventually(() => asked === 1);
    const began = performance.now();
    const results = await Promise.all(fleet(4, 1_000).map((one) => one.run(soon('of the second'))));
    expect(performance.now() - began).toBeGreaterThan(450);
    expect(results.map(({ source }) => source).toSorted()).toEqual(['asked', 'waited', 'waited', 'waited']);
    expect(asked).toBe(2);
  });

  it('is done before the deadline where both holders do not answer', async () => {
    for (const held of ['0:work', '1:work']) {
      await new Process().values.set('value-lease', held, true, 60_000);
    }
    const results = await Promise.all(fleet(3, 800).map((one) => one.run(soon('own'))));
    // One that comes a moment later may find the value of another.
    expect(results.map(({ value }) => value)).toEqual(['own', 'own', 'own']);
    expect(results.map(({ source }) => source)).toContain('asked');
  });

  it('is done by the next process at once where the holder fails', async () => {
    const [first, ...others] = fleet(4);
    const failing = first?.run(async () => {
      await pause(60);
      throw new Error('no answer');
    });
    await eventually(() => asked === 1);
    const results = Promise.all(others.map((one) => one.run(soon('of the next'))));
    await expect(failing).rejects.toThrow('no answer');
    await eventually(() => asked === 2, 700);
    expect((await results).map(({ value }) => value)).toEqual(['of the next', 'of the next', 'of the next']);
    expect(asked).toBe(2);
  });

  it('ends for all where one process shares a failure', async () => {
    const results = await Promise.allSettled(fleet(4).map((one) => one.run(soon('refused'))));
    expect(results.filter(({ status }) => status === 'rejected')).toHaveLength(3);
    expect(asked).toBe(1);
  });

  it.each(['rejects', 'hangs'] as const)('is done by each process where the store %s', async (failure) => {
    jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
    store.failure = failure;
    const results = await Promise.all(fleet(3).map((one) => one.run(soon('own'))));
    expect(results.map(({ source }) => source)).toEqual(['asked', 'asked', 'asked']);
    expect(messages).toContainEqual({ kind: 'value-lease', outcome: 'failed' });
  });

  it('is not waited for after the deadline', async () => {
    await new Process().values.set('value-lease', '0:work', true, 60_000);
    const one = new Process();
    const waiting = one.run(soon('late'));
    await pause(50);
    one.deadline.close();
    await expect(waiting).rejects.toMatchObject({ code: 'service_unavailable' });
    expect(asked).toBe(0);
  });
});

describe('the time before the next look', () => {
  it('doubles to 120 ms, half more or less', () => {
    expect([0, 1, 2, 9].map((turn) => lookAgainAfter(turn, 0.5))).toEqual([30, 60, 120, 120]);
    expect([lookAgainAfter(0, 0), lookAgainAfter(9, 1)]).toEqual([15, 180]);
  });
});
