import { afterEach, describe, expect, it } from '@jest/globals';
import { Logger } from '@nestjs/common';
import type { SharedStore } from '../../lib/index.js';
import { granted, TokenBench, type Answer } from './token-bench.js';
import { eventually } from '../support/wait.js';

/** A store in memory whose content is readable. */
class MemoryStore implements SharedStore {
  readonly values = new Map<string, string>();
  isDown = false;

  async get(key: string): Promise<string | undefined> {
    if (this.isDown) {
      throw new Error('the store is down');
    }
    return this.values.get(key);
  }
  async set(key: string, value: string): Promise<boolean> {
    if (this.isDown) {
      throw new Error('the store is down');
    }
    this.values.set(key, value);
    return true;
  }
  async delete(key: string): Promise<void> {
    this.values.delete(key);
  }
}

const HOUR = 3_600_000;
const benches: TokenBench[] = [];
afterEach(async () => {
  for (const bench of benches.splice(0)) {
    await bench?.stop();
  }
});

/** Two processes of one host: equal tenants, one store, one token endpoint. */
async function twoProcesses(store: SharedStore, secretOfTwo = 'acme secret/+&', answer: Answer = granted()) {
  const one = await TokenBench.start(answer, { acme: {} }, {}, store);
  const acme = { authUrl: one.url, clientSecret: () => secretOfTwo };
  const two = await TokenBench.start(answer, { acme }, {}, store);
  benches.push(one, two);
  return { one, two };
}
const textOf = async (bench: TokenBench) => (await bench.tokens.getToken()).accessToken;

const renewals = ({ outcomes }: TokenBench) =>
  outcomes.filter((outcome) => outcome === 'renewed-early').length;

describe('processes that share a store', () => {
  it('share a token with its remaining lifetime', async () => {
    const { one, two } = await twoProcesses(new MemoryStore());
    const first = await one.tokens.getToken();
    two.clock.ahead = 1_000_000;
    const second = await two.tokens.getToken();
    expect(second).toMatchObject({ accessToken: 'token-1', scope: 'idp_api', tokenType: 'Bearer' });
    expect(Math.abs(second.expiresAt.getTime() - first.expiresAt.getTime())).toBeLessThan(5_000);
    expect(one.posts).toHaveLength(1);
    expect(two.messages.map(({ outcome }) => outcome)).toContain('shared');
  });

  it('share the renewal, early or late', async () => {
    const { one, two } = await twoProcesses(new MemoryStore());
    expect([await textOf(one), await textOf(two)]).toEqual(['token-1', 'token-1']);
    one.clock.ahead = two.clock.ahead = HOUR - 50_000;
    for (const bench of [one, two]) {
      // Each test process has one channel, so both report on it.
      const before = renewals(bench);
      expect(await textOf(bench)).toBe('token-1');
      await eventually(() => renewals(bench) > before);
      expect(await textOf(bench)).toBe('token-2');
    }
    expect(one.posts).toHaveLength(2);
  });

  it('replace a refused token once', async () => {
    const { one, two } = await twoProcesses(new MemoryStore());
    for (const bench of [one, two]) {
      await textOf(bench);
    }
    for (const bench of [one, two]) {
      bench.tokens.refused(await bench.registry.get('acme'), 'token-1');
      expect(await textOf(bench)).toBe('token-2');
    }
    expect(one.posts).toHaveLength(2);
  });

  it('share no token where the secret, the client or the scope differs', async () => {
    const { one, two } = await twoProcesses(new MemoryStore(), 'another secret');
    expect([await textOf(one), await textOf(two)]).toEqual(['token-1', 'token-2']);
    expect(one.posts.map((form) => form.get('client_secret'))).toEqual(['acme secret/+&', 'another secret']);
  });

  it('store neither a readable token nor a secret', async () => {
    const store = new MemoryStore();
    const { one } = await twoProcesses(store);
    await textOf(one);
    expect(store.values.size).toBe(1);
    expect([...store.values].flat().join()).not.toMatch(/token-1|acme secret/);
  });

  it('store no expired token', async () => {
    const store = new MemoryStore();
    const { one } = await twoProcesses(store, undefined, granted({ expires_in: 0 }));
    await textOf(one);
    expect(store.values.size).toBe(0);
  });

  it('have their own tokens where the store fails', async () => {
    const store = new MemoryStore();
    store.isDown = true;
    Logger.overrideLogger(false);
    const { one, two } = await twoProcesses(store);
    expect([await textOf(one), await textOf(two)]).toEqual(['token-1', 'token-2']);
  });
});
