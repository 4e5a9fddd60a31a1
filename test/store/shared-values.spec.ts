import { hkdfSync } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { connect } from 'node:net';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { CompactEncrypt, compactDecrypt, jwtDecrypt } from 'jose';
import type { SharedStore } from '../../lib/index.js';
import { checkOptions } from '../../lib/config/check-options.js';
import { Clock } from '../../lib/call/clock.js';
import { MemoryStore } from './memory-store.js';
import { TestClock } from '../support/clock.js';
import { loggedLines } from '../support/logged-lines.js';
import { sharedValuesOf } from '../support/registry.js';
import { tenantAt } from '../support/tenant-at.js';
import { eventually } from '../support/wait.js';

const SECRET = 'the first secret of the store tests, long';

const logged = loggedLines();
let store: MemoryStore;
beforeEach(() => {
  store = new MemoryStore();
});

/** The values of one process of a host. */
function startProcess(secrets = [SECRET], clock = new Clock(), shared: SharedStore | undefined = store) {
  const options = checkOptions({ tenant: tenantAt(), secrets, store: shared });
  const values = sharedValuesOf(options, clock);
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

  it('are read from a store that answers Buffers', async () => {
    const { write } = startProcess();
    await write('ü');
    const asBytes = async (key: string) => Buffer.from((await store.get(key)) ?? '');
    const bytes = Object.assign(new MemoryStore(), { get: asBytes }) as unknown as SharedStore;
    expect(await startProcess([SECRET], new Clock(), bytes).read()).toBe('ü');
    expect(await startProcess([SECRET], new Clock(), bytes).read('globex')).toBeUndefined();
  });

  it('expire, also where the store keeps them longer', async () => {
    const clock = new TestClock();
    const { read, write } = startProcess([SECRET], clock);
    await write(1, 'acme', 20_000);
    tamper({ until: Number.POSITIVE_INFINITY });
    clock.ahead = 20_001;
    expect(await read()).toBeUndefined();
  });

  /** The same text, sealed with the key of a purpose and a header that differs. */
  async function resealed(
    sealed: string,
    header: object = {},
    purpose = 'store',
    bytes = 32,
  ): Promise<string> {
    const keyOf = (name: string, length = 32) =>
      new Uint8Array(hkdfSync('sha256', SECRET, '', `nestjs-exhibitor:${name}`, length));
    const { plaintext, protectedHeader } = await compactDecrypt(sealed, keyOf('store'));
    const jwe = new CompactEncrypt(plaintext).setProtectedHeader({ ...protectedHeader, ...header });
    return jwe.encrypt(keyOf(purpose, bytes));
  }
  const withChanged = (index: number) => (sealed: string) =>
    sealed
      .split('.')
      .map((part, at) => (at === index ? `${part.startsWith('A') ? 'B' : 'A'}${part.slice(1)}` : part))
      .join('.');

  const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  const nextOf = (character: string): string => ALPHABET[ALPHABET.indexOf(character) + 1] ?? '';

  it.each<[string, (sealed: string) => string | Promise<string>]>([
    ['is empty', () => ''],
    ['is no JWE', () => 'a.b.c.d.e'],
    ['is JSON', () => '{"until":9e15,"value":1}'],
    ['is cut short', (sealed) => sealed.slice(0, -3)],
    ['has a part more', (sealed) => `${sealed}.`],
    ...[0, 1, 2, 3, 4].map((part): [string, (sealed: string) => string] => [
      `was changed in its part ${part}`,
      withChanged(part),
    ]),
    ['names no key', (sealed) => resealed(sealed, { kid: undefined })],
    ['was sealed by another algorithm', (sealed) => resealed(sealed, { enc: 'A256CBC-HS512' }, 'store', 64)],
    ['was sealed for another purpose', (sealed) => resealed(sealed, {}, 'identity')],
  ])('are ignored where what is stored %s', async (_what, change) => {
    const { read, write } = startProcess();
    await write('a value');
    const [sealed = ''] = [...store.raw.values()].map(({ value }) => value);
    // The control: by another process with the same secret.
    tamper({ value: await resealed(sealed) });
    expect(await read()).toBe('a value');
    tamper({ value: await change(sealed) });
    expect(await read()).toBeUndefined();
  });

  it('are JWT that expire, to the ms, with an exp in seconds that is not before', async () => {
    let now = 1_500;
    const { read, write } = startProcess([SECRET], Object.assign(new TestClock(), { epochMs: () => now }));
    await write('a value', 'acme', 2);
    tamper({ until: Number.POSITIVE_INFINITY });
    const [{ value: sealed } = { value: '' }] = [...store.raw.values()];
    const key = new Uint8Array(hkdfSync('sha256', SECRET, '', 'nestjs-exhibitor:store', 32));
    const { payload } = await jwtDecrypt(sealed, key, { currentDate: new Date(0) });
    expect(payload).toEqual({ exp: 2, until: 1_502, value: expect.anything() });
    now = 1_501;
    expect(await read()).toBe('a value');
    now = 1_502;
    expect(await read()).toBeUndefined();
  });

  it('are read in another spelling of the same bytes: a tag of 16 bytes leaves 4 bits over', async () => {
    const { read, write } = startProcess();
    await write('a value');
    const [{ value: sealed } = { value: '' }] = [...store.raw.values()];
    tamper({ value: sealed.slice(0, -1) + nextOf(sealed.slice(-1)) });
    expect(await read()).toBe('a value');
  });

  it('are ignored where they are longer than 1 MiB; giants of many parts are not split', async () => {
    const { read, write } = startProcess();
    await write('x'.repeat(700_000));
    expect(await read()).toHaveLength(700_000);
    await write('x'.repeat(800_000));
    expect(await read()).toBeUndefined();
    const [header] = [...store.raw.values()].map(({ value }) => value.split('.', 1)[0]);
    tamper({ value: `${header}..${'A.'.repeat(10_000_000)}` });
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
});

/** What Node says where nothing listens. */
async function refusedAt(host: string): Promise<unknown> {
  const socket = connect({ host, port: 1, autoSelectFamily: true });
  const [error] = await once(socket, 'error').catch((thrown: unknown) => [thrown]);
  return error;
}

describe('a store that fails', () => {
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
    store.failure = 'none';
    // It takes a logout meanwhile, which ends no rest.
    await values.write('ended-login', 'x', '1', 60_000, { evenAtRest: true });
    await read();
    expect(store.calls).toBe(2);
    clock.ahead = 10_000;
    expect(await read()).toBe(1);
    expect(logged.notes).toEqual(['the shared store answers again']);
  });

  it('that has a logout already is asked for it also while it rests, and nothing is said to be unwritten', async () => {
    const { values, read } = startProcess();
    await values.write('ended-login', 'x', '1', 60_000);
    store.failure = 'rejects';
    await read();
    store.failure = 'none';
    logged.warnings.length = 0;
    await values.writeSoon('ended-login', 'x', '2', 60_000, { ifAbsent: true });
    expect(logged.warnings).toEqual([]);
  });

  it('loses no logout that fails while an earlier one of the same name is written once more', async () => {
    const { values } = startProcess();
    const set = store.set.bind(store);
    const late = new EventEmitter();
    const written: string[] = [];
    // The second write is slow and succeeds; all others fail until then.
    store.set = async (key, text, options) => {
      written.push(text);
      const isSlow = written.length === 2;
      await (isSlow && once(late, 'go'));
      store.failure = isSlow ? 'none' : store.failure;
      return set(key, text, options);
    };
    store.failure = 'rejects';
    await values.writeSoon('ended-login', 'x', '2', 60_000);
    await eventually(() => written.length === 2);
    await values.writeSoon('ended-login', 'x', '1', 60_000);
    late.emit('go');
    await eventually(async () => (await values.read('ended-login', 'x', true)) === '2');
    await values.beforeApplicationShutdown();
    expect(written).toEqual(['2', '2', '1', '1']);
    expect(await values.read('ended-login', 'x', true)).toBe('1');
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
