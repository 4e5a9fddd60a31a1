import { hkdfSync } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { CompactEncrypt, compactDecrypt } from 'jose';
import type { SharedStore } from '../../lib/index.js';
import { checkOptions } from '../../lib/options/check-options.js';
import { ProblemLog } from '../../lib/problems/problem-log.service.js';
import { Sealer, SealingKey } from '../../lib/store/sealer.service.js';
import { SharedValues } from '../../lib/store/shared-values.service.js';
import { Clock } from '../../lib/time/clock.js';
import { MemoryStore } from './memory-store.js';
import { TestClock } from '../support/clock.js';

const SECRET = 'the first secret of the store tests, long';
const NEWER = 'the second secret of the store tests, too';

interface Process {
  sealer: Sealer;
  values: SharedValues;
}

/** The services of one process of a host. */
function startProcess(
  store: SharedStore | undefined,
  secrets = [SECRET],
  clock: Clock = new Clock(),
): Process {
  const options = checkOptions({
    tenant: {
      tenantId: 'acme',
      baseUrl: 'https://api.example',
      authUrl: 'https://login.example',
      clientId: 'acme-api',
      clientSecret: 'secret',
    },
    secrets,
    store,
  });
  const sealer = new Sealer(options, clock);
  const values = new SharedValues(options, sealer, clock, new ProblemLog(options, clock));
  return { sealer, values };
}

let store: MemoryStore;
let warnings: string[];
beforeEach(() => {
  store = new MemoryStore();
  warnings = [];
  jest.spyOn(Logger.prototype, 'warn').mockImplementation((message: unknown) => {
    warnings.push(String(message));
  });
});
afterEach(() => {
  store.failure = 'none';
  jest.restoreAllMocks();
});

/** What Node says where nothing listens. */
async function refusedAt(host: string): Promise<unknown> {
  const [error] = await once(connect({ host, port: 1, autoSelectFamily: true }), 'error').catch(
    (thrown: unknown) => [thrown],
  );
  return error;
}

const PERSON = { email: 'sam.several@example.com', token: 'abc.def.ghi', list: [1, { two: null }] };

describe('values in a shared store', () => {
  it('are under keys that name the version of their form; texts, whose form never changes, are not', async () => {
    const { values } = startProcess(store);
    await values.writeSealed('token', 'acme', 1, 60_000);
    await values.write('spent-state', 'x', '1', 60_000);
    // SHA-256 of `1:acme` and `x`.
    expect([...store.raw.keys()]).toEqual([
      'nestjs-exhibitor:token:B5lxXKxvg3GOUsTvsRAPBKtxUygbjLyOTCa0oKFFPDw',
      'nestjs-exhibitor:spent-state:LXEWQrcmsEQBYnyp-6wy9chTD7GQPMTbAiWHF5IaSIE',
    ]);
  });

  it('are sealed and their keys are digests: the store shows neither address nor token', async () => {
    const { values } = startProcess(store);
    await values.writeSealed('lookup', `acme/world-2026/${PERSON.email}`, PERSON, 60_000);
    expect(store.raw.size).toBe(1);
    expect([...store.raw.keys()][0]).toMatch(/^nestjs-exhibitor:lookup:[\w-]{43}$/);
    for (const secret of [PERSON.email, 'sam.several', PERSON.token, 'world-2026']) {
      expect(store.dump).not.toContain(secret);
      expect(store.dump).not.toContain(Buffer.from(secret).toString('base64').replace(/=+$/, ''));
    }
  });

  it('are set once with ifAbsent', async () => {
    const [one, other] = [startProcess(store), startProcess(store)];
    expect(await one.values.write('state', 'x', '1', 60_000, { ifAbsent: true })).toBe(true);
    expect(await other.values.write('state', 'x', '2', 60_000, { ifAbsent: true })).toBe(false);
    expect(await other.values.read('state', 'x')).toBe('1');
  });

  it('expire, also where the store keeps them longer', async () => {
    const clock = new TestClock();
    const { values } = startProcess(store, [SECRET], clock);
    await values.writeSealed('token', 'acme', 1, 20_000);
    for (const entry of store.raw.values()) {
      entry.until = Number.POSITIVE_INFINITY;
    }
    clock.ahead = 20_001;
    expect(await values.readSealed('token', 'acme')).toBeUndefined();
  });

  it('are readable after a rotation of the secret: all secrets open, the first seals', async () => {
    const before = startProcess(store, [SECRET]);
    const appended = startProcess(store, [SECRET, NEWER]);
    const promoted = startProcess(store, [NEWER, SECRET]);
    await before.values.writeSealed('token', 'a', 1, 60_000);
    await appended.values.writeSealed('token', 'b', 2, 60_000);
    await promoted.values.writeSealed('token', 'c', 3, 60_000);
    expect(await promoted.values.readSealed('token', 'a')).toBe(1);
    expect(await promoted.values.readSealed('token', 'b')).toBe(2);
    expect(await appended.values.readSealed('token', 'c')).toBe(3);
    expect(await before.values.readSealed('token', 'b')).toBe(2);
    expect(await before.values.readSealed('token', 'c')).toBeUndefined();
  });

  it.each(['', 'nonsense', 'a.b.c.d.e', '{"until":9e15,"value":1}', 'null'])(
    'are ignored where something else wrote them: %j',
    async (planted) => {
      const { values } = startProcess(store);
      await values.writeSealed('token', 'acme', 1, 60_000);
      for (const entry of store.raw.values()) {
        entry.value = planted;
      }
      expect(await values.readSealed('token', 'acme')).toBeUndefined();
    },
  );

  it('are ignored where they are longer than 1 MiB', async () => {
    const { values } = startProcess(store);
    await values.writeSealed('token', 'acme', 'x'.repeat(700_000), 60_000);
    expect(typeof (await values.readSealed('token', 'acme'))).toBe('string');
    await values.writeSealed('token', 'acme', 'x'.repeat(800_000), 60_000);
    expect(typeof (await values.readSealed('token', 'acme'))).toBe('undefined');
  });

  it.each(['.', 'A.'])('are not split where they are giants of many parts: %j', async (part) => {
    const { values } = startProcess(store);
    await values.writeSealed('token', 'acme', 1, 60_000);
    for (const entry of store.raw.values()) {
      entry.value = `${entry.value.split('.', 1)[0]}..${part.repeat(10_000_000)}`;
    }
    const began = process.cpuUsage();
    expect(await values.readSealed('token', 'acme')).toBeUndefined();
    expect(process.cpuUsage(began).user / 1_000).toBeLessThan(100);
  });

  it('open under their own key only', async () => {
    const { values } = startProcess(store);
    await values.writeSealed('token', 'acme', 'of acme', 60_000);
    await values.writeSealed('token', 'globex', 'of globex', 60_000);
    const [acme, globex] = store.raw.values();
    if (acme === undefined || globex === undefined) {
      throw new Error('both are stored');
    }
    [acme.value, globex.value] = [globex.value, acme.value];
    expect([await values.readSealed('token', 'acme'), await values.readSealed('token', 'globex')]).toEqual([
      undefined,
      undefined,
    ]);
  });

  it('are not stored without a store', async () => {
    const { values } = startProcess(undefined);
    expect(values.enabled).toBe(false);
    expect(await values.writeSealed('token', 'acme', 1, 60_000)).toBeNull();
    expect(await values.readSealed('token', 'acme')).toBeUndefined();
    expect(warnings).toEqual([]);
  });
});

describe('a store that fails', () => {
  it.each(['throws', 'rejects', 'hangs'] as const)('and %s causes a miss and a warning', async (failure) => {
    const { values } = startProcess(store);
    store.failure = failure;
    const began = performance.now();
    const answers = await Promise.all([
      values.readSealed('token', 'acme'),
      values.writeSealed('token', 'acme', 1, 60_000),
      values.write('spent-state', 'x', '1', 60_000),
      values.read('ended-login', 'y'),
    ]);
    expect(answers).toEqual([undefined, null, null, null]);
    // A hanging store is waited for 1 s, far below the deadline of a call.
    expect(performance.now() - began).toBeLessThan(5_000);
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toMatch(/^the shared store does not answer \(\w*Error\); continuing without it$/);
    expect(warnings[0]).not.toMatch(/s3cret|10\.0\.0\.1/);
  });

  it.each([
    ['name\n[Nest] 1 - LOG forged', 'name [Nest] 1 - LOG forged'],
    ['of zoe.private@example.com', 'of [removed]'],
    ['n'.repeat(5_000), `${'n'.repeat(100)}…`],
    [undefined, 'unknown error'],
    [{ name: 'an object' }, 'unknown error'],
  ])('and fails with an error of any name is a miss and a short warning: %j', async (name, shown) => {
    const failing = Object.assign(new MemoryStore(), {
      get: () => Promise.reject(Object.assign(new Error('s3cret'), { name })),
    });
    expect(await startProcess(failing).values.readSealed('token', 'acme')).toBeUndefined();
    expect(warnings).toEqual([`the shared store does not answer (${shown}); continuing without it`]);
  });

  it('is not called for 5 s, so that not every call waits for it, and then used again', async () => {
    const clock = new TestClock();
    const { values } = startProcess(store, [SECRET], clock);
    await values.writeSealed('token', 'acme', 1, 60_000);
    store.failure = 'rejects';
    await values.readSealed('token', 'acme');
    store.calls = 0;
    for (let turn = 0; turn < 20; turn++) {
      clock.ahead = turn * 250;
      await values.readSealed('token', 'acme');
    }
    expect(store.calls).toBe(0);
    await values.write('ended-login', 'x', '1', 60_000, { evenAtRest: true });
    expect(store.calls).toBe(1);
    clock.ahead = 10_000;
    store.failure = 'none';
    const log = jest.spyOn(Logger.prototype, 'log').mockImplementation(() => {});
    expect(await values.readSealed('token', 'acme')).toBe(1);
    expect(log.mock.calls).toEqual([['the shared store answers again']]);
  });

  it.each([
    ['a refused connection', () => refusedAt('127.0.0.1'), /^ECONNREFUSED 127\.0\.0\.1:1$/],
    ['all addresses of a name', () => refusedAt('localhost'), /^ECONNREFUSED (127\.0\.0\.1|::1):1$/],
    [
      'the cause of a client',
      async () => new Error('s3cret', { cause: await refusedAt('127.0.0.1') }),
      /^ECONNREFUSED 127\.0\.0\.1:1$/,
    ],
    ['a code', async () => Object.assign(new Error('s3cret'), { code: 'WRONGPASS' }), /^WRONGPASS$/],
  ])('is a warning that names %s', async (_, failure, named) => {
    const error = await failure();
    const failing = Object.assign(new MemoryStore(), { get: () => Promise.reject(error) });
    await startProcess(failing).values.readSealed('token', 'acme');
    const [, reason] = /\((.*)\); continuing/.exec(warnings[0] ?? '') ?? [];
    expect(reason).toMatch(named);
  });
});

const TEXT = JSON.stringify({ name: 'Zoë 🎪', values: ['x'.repeat(900), 1, null] });
const key = new SealingKey(SECRET, 'identity');
const raw = new Uint8Array(hkdfSync('sha256', SECRET, '', 'nestjs-exhibitor:identity', 32));

const headerOf = (sealed: string): Record<string, string> =>
  JSON.parse(Buffer.from(sealed.split('.')[0] ?? '', 'base64url').toString()) as Record<string, string>;

describe('a sealing key', () => {
  it('opens what jose sealed with it, and seals what jose opens', async () => {
    const sealed = await key.seal(TEXT);
    expect(await key.open(sealed)).toBe(TEXT);
    const { plaintext, protectedHeader } = await compactDecrypt(sealed, raw);
    expect(Buffer.from(plaintext).toString()).toBe(TEXT);
    expect(protectedHeader).toEqual({ alg: 'dir', enc: 'A256GCM', kid: expect.any(String) });
    const ours = await new CompactEncrypt(Buffer.from(TEXT))
      .setProtectedHeader({ alg: 'dir', enc: 'A256GCM', kid: headerOf(sealed)['kid'] })
      .encrypt(raw);
    expect(await key.open(ours)).toBe(TEXT);
  });

  it('opens nothing of another secret or purpose', async () => {
    const sealed = await key.seal(TEXT);
    expect(await new SealingKey(SECRET, 'login').open(sealed)).toBeUndefined();
    expect(await new SealingKey(`${SECRET}!`, 'identity').open(sealed)).toBeUndefined();
    expect(await new SealingKey(SECRET, 'identity').open(sealed)).toBe(TEXT);
  });

  it('opens nothing with another header, though it is sealed with the same bytes', async () => {
    const { kid } = headerOf(await key.seal(TEXT));
    const seal = (header: { alg: string; enc: string; kid?: string; typ?: string }): Promise<string> =>
      new CompactEncrypt(Buffer.from(TEXT)).setProtectedHeader(header).encrypt(raw);
    expect(await key.open(await seal({ alg: 'dir', enc: 'A256GCM', kid }))).toBe(TEXT);
    expect(await key.open(await seal({ alg: 'dir', enc: 'A256GCM' }))).toBeUndefined();
    expect(await key.open(await seal({ alg: 'dir', enc: 'A128CBC-HS256', kid }))).toBeUndefined();
    expect(await key.open(await seal({ alg: 'dir', enc: 'A256GCM', kid, typ: 'JWT' }))).toBeUndefined();
    expect(await key.open(await seal({ alg: 'A256GCMKW', enc: 'A256GCM', kid }))).toBeUndefined();
  });

  it('opens nothing that was changed, cut short, extended or encoded in another way', async () => {
    const sealed = await key.seal(TEXT);
    const parts = sealed.split('.');
    for (const index of parts.keys()) {
      for (const change of [
        (part: string) => part.slice(0, -1),
        (part: string) => part.slice(4),
        (part: string) => `A${part.slice(1)}A`,
        (part: string) => `${part}=`,
        (part: string) => `${part}!`,
        (part: string) => `${part} `,
        () => '',
        () => 'AAAA',
      ]) {
        const changed = parts.map((part, at) => (at === index ? change(part) : part)).join('.');
        expect(changed === sealed ? undefined : await key.open(changed)).toBeUndefined();
      }
    }
    for (const other of [`${sealed}.`, sealed.slice(0, -3), parts.slice(0, 4).join('.'), '', '....', 'x']) {
      expect(await key.open(other)).toBeUndefined();
    }
  });

  it('accepts only one spelling of the last characters of a part', async () => {
    const sealed = await key.seal(TEXT);
    // The tag has 16 bytes: of its last character only two bits count.
    const last = sealed.at(-1) ?? '';
    const twin = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
    const others = [...twin]
      .filter((letter) => letter !== last)
      .map((letter) => sealed.slice(0, -1) + letter);
    const opened = await Promise.all(others.map((other) => key.open(other)));
    expect(opened.filter((text) => text !== undefined)).toEqual([]);
  });
});
