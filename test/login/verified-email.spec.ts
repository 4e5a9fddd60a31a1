import { beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { clockOf } from '../support/clock.js';
import type { Host } from '../support/host.js';
import { OperatorLines } from '../support/operator-lines.js';
import type { ScriptedProvider } from '../support/provider.js';
import { changes, says, type Claims } from '../support/provider-script.js';
import { Visitor } from '../support/visitor.js';
import { withProvider } from './hosts.js';
import { enter, expectAccepted, expectLoginRefused, identityOf, logIn } from './journey.js';

const VICTIM = 'victim@example.com';
const MALLORY = 'mallory@example.com';
/** What a source says of an address; that of no address is its flag alone. */
const of = (email: unknown, verified?: unknown): Claims => ({ email, email_verified: verified });
const NONE = of(undefined);

/** What the ID token and userinfo say. */
type Case = [what: string, idToken: Claims, userinfo: Claims];

/** Values of `email_verified`. */
const YES = [true, 'true', 'True', 'TRUE', [true], ['True'], [true, 'TRUE']];
const SINGLE = [
  false,
  'false',
  'False',
  'FALSE',
  0,
  1,
  '0',
  '1',
  'no',
  'yes',
  ' ',
  ' true',
  {},
  { value: true },
];
const LISTS = [[], [false, 'False'], [true, false], [true, 'False'], [true, null], [true, ''], [[true]], [1]];
const NO = [...SINGLE, ...LISTS];
const NEITHER = [undefined, null, ''];

const VERIFIED: readonly Case[] = [
  ['userinfo says it of the same address', of(VICTIM), of(VICTIM, true)],
  ['the ID token says it of a list with its address', of([VICTIM, VICTIM], true), NONE],
  ['userinfo says it of a list with the same address', of(VICTIM), of([VICTIM], ['true'])],
];

const UNVERIFIED: readonly Case[] = [
  ['neither says anything', of(VICTIM), of(VICTIM)],
  ['userinfo verifies another address', of(VICTIM), of(MALLORY, true)],
  ['the ID token verifies nothing and userinfo has the address', of(undefined, true), of(VICTIM)],
  ['userinfo verifies, but has no address', of(VICTIM), of(undefined, true)],
  ['the addresses differ in case', of(VICTIM), of(VICTIM.toUpperCase(), true)],
  ['userinfo verifies a list with another address', of(VICTIM), of([VICTIM, MALLORY], true)],
  ['the flag is not there in either', of(VICTIM, null), of(VICTIM, '')],
  ['userinfo denies it without an address', of(VICTIM), of(undefined, 'false')],
  ['userinfo denies another address', of(VICTIM), of(MALLORY, false)],
];

let provider: ScriptedProvider;
const start = withProvider((started) => (provider = started));
let plain: Host;
let strict: Host;
/** Of `plain`. */
const lines = new OperatorLines();
beforeAll(async () => {
  plain = await start({ configure: (app) => app.useLogger(lines) });
  strict = await start({ login: { requireVerifiedEmail: true } });
});

beforeEach(() => {
  // A minute after the last line.
  clockOf(plain.app).skip(60_000, ['now']);
  lines.clear();
});

function bothSay(idToken: Claims, userinfo: Claims): void {
  provider.script = { ...says(idToken), userinfo: changes(userinfo) };
}

const emailAt = async (host: Host): Promise<unknown> => (await identityOf(await enter(host), host))?.email;

describe('requireVerifiedEmail', () => {
  it.each(VERIFIED)('accepts where %s', async (_what, idToken, userinfo) => {
    bothSay(idToken, userinfo);
    expect(await emailAt(strict)).toBe(VICTIM);
  });

  it.each(UNVERIFIED)('refuses where %s', async (_what, idToken, userinfo) => {
    bothSay(idToken, userinfo);
    await expectLoginRefused(strict, 'email_unverified');
  });

  it('is refused at startup with another emailClaim, also of a tenant of a source', async () => {
    const login = { requireVerifiedEmail: true, emailClaim: 'upn' };
    const refusal = /login\.requireVerifiedEmail: must be false with another emailClaim than 'email'/;
    await expect(start({ login })).rejects.toThrow(refusal);
    const host = await start({}, (callback) => ({
      tenants: { find: () => provider.tenantOptions(callback, login) },
      allowedOrigins: () => true,
    }));
    lines.clear();
    expect((await new Visitor().visit(`${host.url}/auth/login?tenant=acme`)).status).toBe(500);
    expect(lines.all).toEqual([expect.stringMatching(refusal)]);
  });

  it('is not needed for the first of two addresses, nor for one without email_verified, unless it is set', async () => {
    bothSay(of(VICTIM), of(MALLORY, true));
    expect(await emailAt(plain)).toBe(VICTIM);
    bothSay({ email_verified: undefined }, { email_verified: undefined });
    await expectAccepted(plain);
  });
});

describe('the address', () => {
  it('counts as none where it could name another contact in a path, or is too long', async () => {
    const long = `${'a'.repeat(300)}@example.com`;
    for (const email of [
      `./${VICTIM}`,
      `/${VICTIM}`,
      `x/../${VICTIM}`,
      `..%252f${VICTIM}`,
      `..;/${VICTIM}`,
      long,
    ]) {
      bothSay({ email }, { email });
      await expectLoginRefused(plain, 'email_missing');
    }
    bothSay({ email: `./${VICTIM}` }, { email: MALLORY });
    expect(await emailAt(plain)).toBe(MALLORY);
  });

  it.each([[[VICTIM]], [[VICTIM, VICTIM]], [[VICTIM, VICTIM, VICTIM]]])(
    'is that of a list with one: %j',
    async (email) => {
      bothSay(of(email, true), NONE);
      expect(await emailAt(plain)).toBe(VICTIM);
      bothSay(NONE, of(email, true));
      expect(await emailAt(plain)).toBe(VICTIM);
    },
  );

  it.each<[email: unknown, form: string]>([
    [[VICTIM, MALLORY], 'a list of 2 different values'],
    [[VICTIM, VICTIM.toUpperCase()], 'a list of 2 different values'],
    [[VICTIM, null], 'a list of 2 different values'],
    [['pat', 'pat'], 'a list of 1 different values'],
    [[[VICTIM]], 'a list of 1 different values'],
    [[], 'a list of 0 different values'],
    ['pat', 'another text'],
    ['', '""'],
    [null, 'null'],
    [7, 'number 7'],
  ])('is none where the claim is %j, and the line says so', async (email, form) => {
    bothSay({ email }, NONE);
    await expectLoginRefused(plain, 'email_missing');
    const line = new RegExp(
      `\\(email_missing\\).* expected 'claim email, .* received 'email as ${form}, of the claims .*'$`,
    );
    expect(lines.all).toEqual([expect.stringMatching(line)]);
    expect(lines.all.join()).not.toMatch(/@|pat/);
  });

  it('is read byte for byte from the configured claim, and from no inherited property', async () => {
    provider.script = says({ upn: 'Zoë+Fair@Example.COM' });
    expect(await emailAt(await start({ login: { emailClaim: 'upn' } }))).toBe('Zoë+Fair@Example.COM');
    await expectLoginRefused(await start({ login: { emailClaim: 'constructor' } }), 'email_missing');
  });
});

describe('email_verified', () => {
  it('that is false without any address, in either source, is email_missing, and an operator reads it', async () => {
    bothSay(of(undefined, false), NONE);
    await expectLoginRefused(plain, 'email_missing');
    bothSay(NONE, of(undefined, 'false'));
    await expectLoginRefused(plain, 'email_missing');
    const options = 'tenant\\.login\\.scope, tenant\\.login\\.emailClaim';
    const line = new RegExp(`^${options}: .*email_missing.*'claim email,.*received 'claims `);
    expect(lines.all).toEqual([expect.stringMatching(line)]);
  });

  it.each(NO.map((flag) => [flag]))('%j is no, in either source, and an operator reads it', async (flag) => {
    bothSay(of(VICTIM, flag), NONE);
    await expectLoginRefused(plain, 'email_unverified');
    bothSay(NONE, of(VICTIM, flag));
    await expectLoginRefused(plain, 'email_unverified');
    bothSay(of(VICTIM, true), of(VICTIM, flag));
    expect(await emailAt(plain)).toBe(VICTIM);
    const line =
      /^tenant: .*\(email_unverified\).* expected 'email_verified true beside this email', received 'token .*, userinfo none'$/;
    expect(lines.all).toEqual([expect.stringMatching(line)]);
    expect(lines.all.join()).not.toContain('@');
  });

  it.each(YES.map((flag) => [flag]))('%j is yes', async (flag) => {
    for (const [idToken, userinfo] of [
      [of(VICTIM, flag), NONE],
      [NONE, of(VICTIM, flag)],
    ] as const) {
      bothSay(idToken, userinfo);
      expect(await emailAt(strict)).toBe(VICTIM);
    }
  });

  it.each(NEITHER.map((flag) => [flag]))('%j is neither', async (flag) => {
    bothSay(of(VICTIM, flag), of(VICTIM, flag));
    expect(await emailAt(plain)).toBe(VICTIM);
    await expectLoginRefused(strict, 'email_unverified');
  });

  it('that is false counts where the address is in the other source', async () => {
    bothSay(of(undefined, false), of(VICTIM));
    await expectLoginRefused(plain, 'email_unverified');
    bothSay(of(VICTIM, false), NONE);
    await expectLoginRefused(plain, 'email_unverified');
  });

  it.each<[what: string, idToken: Claims, asked: number]>([
    ['decides', of(VICTIM, true), 0],
    ['refuses', of(VICTIM, false), 0],
    ['refuses, but has no address', of(undefined, false), 1],
    ['leaves it open', of(VICTIM), 1],
    ['names no address', of(undefined, true), 1],
  ])('of the ID token that %s makes userinfo unnecessary or not', async (_what, idToken, asked) => {
    bothSay(idToken, of(VICTIM, true));
    const before = provider.count('/connect/userinfo');
    await logIn(new Visitor(), strict);
    expect(provider.count('/connect/userinfo') - before).toBe(asked);
  });

  it('that is no refuses an address of another claim too, and an operator reads which option names that claim', async () => {
    const host = await start({ login: { emailClaim: 'upn' }, configure: (app) => app.useLogger(lines) });
    bothSay({ upn: VICTIM, ...of(undefined, false) }, NONE);
    await expectLoginRefused(host, 'email_unverified');
    const line =
      /^tenant\.login\.emailClaim: .*\(email_unverified\); expected 'email_verified true or none, with any emailClaim', received 'token false, userinfo none'$/;
    expect(lines.all).toEqual([expect.stringMatching(line)]);
    bothSay({ upn: VICTIM, ...NONE }, NONE);
    expect(await emailAt(host)).toBe(VICTIM);
  });

  it('of one source is not shown beside the email of the other', async () => {
    for (const [host, idToken, userinfo, shown] of [
      [plain, of(undefined, true), of(VICTIM), of(VICTIM)],
      [strict, of(VICTIM), of(VICTIM, true), of(VICTIM, true)],
      [plain, of(VICTIM), of(MALLORY, true), of(VICTIM)],
      [strict, of([VICTIM]), of(VICTIM, true), of([VICTIM], true)],
    ] as const) {
      bothSay(idToken, userinfo);
      const { email, email_verified: verified } = (await identityOf(await enter(host), host))?.claims ?? {};
      expect({ email, email_verified: verified }).toEqual(shown);
    }
  });
});
