import { hkdfSync } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { CompactEncrypt, compactDecrypt } from 'jose';
import type { SharedStore } from '../../lib/index.js';
import { checkOptions } from '../../lib/options/check-options.js';
import { ProblemLog } from '../../lib/problems/problem-log.service.js';
import { Sealer, SealingKey } from '../../lib/store/sealer.service.js';
import { SharedValues } from '../../lib/store/shared-values.service.js';
import { Clock } from '../../lib/time/clock.js';
import { MemoryStore } from './memory-store.js';
import { TestClock } from '../support/clock.js';
import { loggedLines } from '../support/logged-lines.js';
import { tenantAt } from '../support/tenant-at.js';

const SECRET = 'the first secret of the store tests, long';
const NEWER = 'the second secret of the store tests, too';

const logged = loggedLines();
let store: MemoryStore;
beforeEach(() => {
  store = new MemoryStore();
});

/** The values of one process of a host. */
function startProcess(secrets = [SECRET], clock = new Clock(), shared: SharedStore | undefined = store) {
  const options = checkOptions({ tenant: tenantAt(), secrets, store: shared });
  const values = new SharedValues(options, new Sealer(options, clock), clock, new ProblemLog(options, clock));
  return {
    values,
    read: (key = 'acme') => values.readSealed('token', key),
    write: (value: unknown, key = 'acme', ttl = 60_000) => values.writeSealed('token', key, value, ttl),
  };
}

/** A store whose every read fails with this error. */
function failingWith(failure: unknown): SharedStore {
  return Object.assign(new MemoryStore(), { get: () => Promise.reject(failure) });
}

/** Changes everything that is stored. */
function tamper(change: Partial<{ value: string; until: number }>): void {
  store.raw.forEach((entry) => Object.assign(entry, change));
}

describe('values in a shared store', () => {
  it('are under keys that name the version of their form; texts, whose form never changes, are not', async () => {
    const { values, write } = startProcess();
    await write(1);
    await values.write('spent-state', 'x', '1', 60_000);
    // SHA-256 of `1:acme` and `x`.
    expect([...store.raw.keys()]).toEqual([
      'nestjs-exhibitor:token:B5lxXKxvg3GOUsTvsRAPBKtxUygbjLyOTCa0oKFFPDw',
      'nestjs-exhibitor:spent-state:LXEWQrcmsEQBYnyp-6wy9chTD7GQPMTbAiWHF5IaSIE',
    ]);
  });

  it('are sealed and their keys are digests: the store shows neither address nor token', async () => {
    const { write, read } = startProcess();
    const person = { email: 'sam.several@example.com', token: 'abc.def.ghi', list: [1, { two: null }] };
    await write(person, `acme/world-2026/${person.email}`);
    expect(await read(`acme/world-2026/${person.email}`)).toEqual(person);
    for (const secret of [person.email, 'sam.several', person.token, 'world-2026']) {
      expect(store.dump).not.toContain(secret);
      expect(store.dump).not.toContain(Buffer.from(secret).toString('base64').replace(/=+$/, ''));
    }
  });

  it('are set once with ifAbsent', async () => {
    const [one, other] = [startProcess().values, startProcess().values];
    expect(await one.write('state', 'x', '1', 60_000, { ifAbsent: true })).toBe(true);
    expect(await other.write('state', 'x', '2', 60_000, { ifAbsent: true })).toBe(false);
    expect(await other.read('state', 'x')).toBe('1');
  });

  it('expire, also where the store keeps them longer', async () => {
    const clock = new TestClock();
    const { read, write } = startProcess([SECRET], clock);
    await write(1, 'acme', 20_000);
    tamper({ until: Number.POSITIVE_INFINITY });
    clock.ahead = 20_001;
    expect(await read()).toBeUndefined();
  });

  it('are readable after a rotation of the secret: all secrets open, the first seals', async () => {
    const before = startProcess([SECRET]);
    const appended = startProcess([SECRET, NEWER]);
    const promoted = startProcess([NEWER, SECRET]);
    await before.write(1, 'a');
    await appended.write(2, 'b');
    await promoted.write(3, 'c');
    const all = ({ read }: typeof before) => Promise.all(['a', 'b', 'c'].map(read));
    expect(await all(promoted)).toEqual([1, 2, 3]);
    expect(await all(appended)).toEqual([1, 2, 3]);
    expect(await all(before)).toEqual([1, 2, undefined]);
  });

  it.each(['', 'nonsense', 'a.b.c.d.e', '{"until":9e15,"value":1}', 'null'])(
    'are ignored where something else wrote them: %j',
    async (planted) => {
      const { read, write } = startProcess();
      await write(1);
      tamper({ value: planted });
      expect(await read()).toBeUndefined();
    },
  );

  it('are ignored where they are longer than 1 MiB', async () => {
    const { read, write } = startProcess();
    await write('x'.repeat(700_000));
    expect(typeof (await read())).toBe('string');
    await write('x'.repeat(800_000));
    expect(typeof (await read())).toBe('undefined');
  });

  it.each(['.', 'A.'])('are not split where they are giants of many parts: %j', async (part) => {
    const { read, write } = startProcess();
    await write(1);
    const [header] = [...store.raw.values()].map(({ value }) => value.split('.', 1)[0]);
    tamper({ value: `${header}..${part.repeat(10_000_000)}` });
    const began = process.cpuUsage();
    expect(await read()).toBeUndefined();
    expect(process.cpuUsage(began).user / 1_000).toBeLessThan(100);
  });

  it('open under their own key only', async () => {
    const { read, write } = startProcess();
    await write('of acme');
    await write('of globex', 'globex');
    const values = [...store.raw.values()].map(({ value }) => value);
    expect(values).toHaveLength(2);
    store.raw.forEach((entry) => (entry.value = values.pop() ?? ''));
    expect([await read(), await read('globex')]).toEqual([undefined, undefined]);
  });

  it('are not stored without a store', async () => {
    const options = checkOptions({ tenant: tenantAt(), secrets: [SECRET] });
    const clock = new Clock();
    const log = new ProblemLog(options, clock);
    const values = new SharedValues(options, new Sealer(options, clock), clock, log);
    expect(values.enabled).toBe(false);
    expect(await values.writeSealed('token', 'acme', 1, 60_000)).toBeNull();
    expect(await values.readSealed('token', 'acme')).toBeUndefined();
    expect(logged.warnings).toEqual([]);
  });
});

/** What Node says where nothing listens. */
async function refusedAt(host: string): Promise<unknown> {
  const socket = connect({ host, port: 1, autoSelectFamily: true });
  const [error] = await once(socket, 'error').catch((thrown: unknown) => [thrown]);
  return error;
}

describe('a store that fails', () => {
  it.each(['throws', 'rejects', 'hangs'] as const)('and %s causes a miss and a warning', async (failure) => {
    const { values, read, write } = startProcess();
    store.failure = failure;
    const began = performance.now();
    const texts = [values.write('spent-state', 'x', '1', 60_000), values.read('ended-login', 'y')];
    expect(await Promise.all([read(), write(1), ...texts])).toEqual([undefined, null, null, null]);
    // A hanging store is waited for 1 s, far below the deadline of a call.
    expect(performance.now() - began).toBeLessThan(5_000);
    expect(logged.warnings).toEqual([
      expect.stringMatching(/^the shared store does not answer \(\w*Error\); continuing without it$/),
    ]);
  });

  it('is not called for 5 s, so that not every call waits for it, and then used again', async () => {
    const clock = new TestClock();
    const { values, read, write } = startProcess([SECRET], clock);
    await write(1);
    store.failure = 'rejects';
    await read();
    store.calls = 0;
    for (let turn = 0; turn < 20; turn++) {
      clock.ahead = turn * 250;
      await read();
    }
    expect(store.calls).toBe(0);
    await values.write('ended-login', 'x', '1', 60_000, { evenAtRest: true });
    expect(store.calls).toBe(1);
    clock.ahead = 10_000;
    store.failure = 'none';
    expect(await read()).toBe(1);
    expect(logged.notes).toEqual(['the shared store answers again']);
  });

  const named = (name: unknown) => async () => Object.assign(new Error('s3cret'), { name });
  const refused = /^ECONNREFUSED 127\.0\.0\.1:1$/;
  it.each<[string, failure: () => Promise<unknown>, shown: RegExp]>([
    ['a name of two lines', named('name\n[Nest] 1 - LOG forged'), /^name \[Nest\] 1 - LOG forged$/],
    ['an address', named('of zoe.private@example.com'), /^of \[removed\]$/],
    ['a long name', named('n'.repeat(5_000)), /^n{100}…$/],
    ['no name', named(undefined), /^unknown error$/],
    ['a name that is none', named({ name: 'an object' }), /^unknown error$/],
    ['a refused connection', () => refusedAt('127.0.0.1'), refused],
    ['all addresses of a name', () => refusedAt('localhost'), /^ECONNREFUSED (127\.0\.0\.1|::1):1$/],
    ['a cause', async () => new Error('s3cret', { cause: await refusedAt('127.0.0.1') }), refused],
    ['a code', async () => Object.assign(new Error('s3cret'), { code: 'WRONGPASS' }), /^WRONGPASS$/],
  ])('is a miss, and a short warning that names why: %s', async (_, failure, shown) => {
    const { read } = startProcess([SECRET], new Clock(), failingWith(await failure()));
    expect(await read()).toBeUndefined();
    const [, reason] =
      /^the shared store does not answer \((.*)\); continuing/.exec(logged.warnings[0] ?? '') ?? [];
    expect(reason).toMatch(shown);
    expect(logged.warnings).toHaveLength(1);
  });
});

const TEXT = JSON.stringify({ name: 'Zoë 🎪', values: ['x'.repeat(900), 1, null] });

describe('a sealing key', () => {
  const key = new SealingKey(SECRET, 'identity');
  const raw = new Uint8Array(hkdfSync('sha256', SECRET, '', 'nestjs-exhibitor:identity', 32));
  const header = { alg: 'dir', enc: 'A256GCM' };
  let sealed: string;
  let kid: string;
  beforeEach(async () => {
    sealed = await key.seal(TEXT);
    kid = JSON.parse(Buffer.from(sealed.split('.')[0] ?? '', 'base64url').toString()).kid;
  });

  it('opens what jose sealed with it, and seals what jose opens', async () => {
    expect(await key.open(sealed)).toBe(TEXT);
    const { plaintext, protectedHeader } = await compactDecrypt(sealed, raw);
    expect(Buffer.from(plaintext).toString()).toBe(TEXT);
    expect(protectedHeader).toEqual({ ...header, kid: expect.any(String) });
  });

  it('opens nothing of another secret or purpose', async () => {
    expect(await new SealingKey(SECRET, 'login').open(sealed)).toBeUndefined();
    expect(await new SealingKey(`${SECRET}!`, 'identity').open(sealed)).toBeUndefined();
    expect(await new SealingKey(SECRET, 'identity').open(sealed)).toBe(TEXT);
  });

  it('opens nothing with another header, though it is sealed with the same bytes', async () => {
    const open = async (changed: object): Promise<string | undefined> => {
      const jwe = new CompactEncrypt(Buffer.from(TEXT)).setProtectedHeader({ ...header, kid, ...changed });
      return key.open(await jwe.encrypt(raw));
    };
    expect(await open({})).toBe(TEXT);
    for (const changed of [
      { kid: undefined },
      { enc: 'A128CBC-HS256' },
      { typ: 'JWT' },
      { alg: 'A256GCMKW' },
    ]) {
      expect([changed, await open(changed)]).toEqual([changed, undefined]);
    }
  });

  it('opens nothing that was changed, cut short, extended or encoded in another way', async () => {
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
    // The tag has 16 bytes: of its last character only two bits count.
    const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
    const others = [...letters].filter((letter) => letter !== sealed.at(-1));
    const opened = await Promise.all(others.map((letter) => key.open(sealed.slice(0, -1) + letter)));
    expect(opened.filter((text) => text !== undefined)).toEqual([]);
  });
});
