import { beforeAll, describe, expect, it } from '@jest/globals';
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
const of = (email: string | undefined, verified?: unknown): Claims => ({ email, email_verified: verified });
const NONE = of(undefined);

/** What the ID token and userinfo say. With `upn`, that is the claim with the address. */
type Case = [what: string, idToken: Claims, userinfo: Claims];
const upn = (claims: Claims): Claims => ({ upn: VICTIM, ...claims });

const VERIFIED: readonly Case[] = [
  ['the ID token says it of its own address', of(VICTIM, true), NONE],
  ['the ID token says it as text', of(VICTIM, 'true'), NONE],
  ['userinfo says it of its own address', NONE, of(VICTIM, true)],
  ['userinfo says it of the same address', of(VICTIM), of(VICTIM, true)],
  ['emailClaim has the same address as the verified email', upn(of(VICTIM, true)), NONE],
  ['userinfo verifies the address of emailClaim', upn(of(MALLORY, true)), of(VICTIM, true)],
];

const UNVERIFIED: readonly Case[] = [
  ['neither says anything', of(VICTIM), of(VICTIM)],
  ['userinfo verifies another address', of(VICTIM), of(MALLORY, true)],
  ['the ID token verifies nothing and userinfo has the address', of(undefined, true), of(VICTIM)],
  ['userinfo verifies, but has no address', of(VICTIM), of(undefined, true)],
  ['the verified email is not that of emailClaim', upn(of(MALLORY, true)), NONE],
  ['emailClaim stands beside a flag without an email', upn(of(undefined, true)), NONE],
  ['the addresses differ in case', of(VICTIM), of(VICTIM.toUpperCase(), true)],
  ['the flag is a list', of(VICTIM, [true]), NONE],
  ['userinfo denies it without an address', of(VICTIM), of(undefined, 'false')],
  ['userinfo denies another address', of(VICTIM), of(MALLORY, false)],
];

let provider: ScriptedProvider;
const start = withProvider((started) => (provider = started));
let plain: Host;
let strict: Host;
let strictOfUpn: Host;
beforeAll(async () => {
  plain = await start();
  strict = await start({ login: { requireVerifiedEmail: true } });
  strictOfUpn = await start({ login: { requireVerifiedEmail: true, emailClaim: 'upn' } });
});

function bothSay(idToken: Claims, userinfo: Claims): void {
  provider.script = { ...says(idToken), userinfo: changes(userinfo) };
}

const emailAt = async (host: Host): Promise<unknown> => (await identityOf(await enter(host), host))?.email;

describe('requireVerifiedEmail', () => {
  const hostOf = (idToken: Claims): Host => ('upn' in idToken ? strictOfUpn : strict);

  it.each(VERIFIED)('accepts where %s', async (_what, idToken, userinfo) => {
    bothSay(idToken, userinfo);
    expect(await emailAt(hostOf(idToken))).toBe(VICTIM);
  });

  it.each(UNVERIFIED)('refuses where %s', async (_what, idToken, userinfo) => {
    bothSay(idToken, userinfo);
    await expectLoginRefused(hostOf(idToken), 'email_unverified');
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

  it('is read byte for byte from the configured claim, and from no inherited property', async () => {
    provider.script = says({ upn: 'Zoë+Fair@Example.COM' });
    expect(await emailAt(await start({ login: { emailClaim: 'upn' } }))).toBe('Zoë+Fair@Example.COM');
    await expectLoginRefused(await start({ login: { emailClaim: 'constructor' } }), 'email_missing');
  });
});

describe('email_verified', () => {
  it('that is false without any address, in either source, is email_missing, and an operator reads it', async () => {
    const lines = new OperatorLines();
    const host = await start();
    host.app.useLogger(lines);
    bothSay(of(undefined, false), NONE);
    await expectLoginRefused(host, 'email_missing');
    bothSay(NONE, of(undefined, 'false'));
    await expectLoginRefused(host, 'email_missing');
    const options = 'tenant\\.login\\.scope, tenant\\.login\\.emailClaim';
    const line = new RegExp(`^${options}: .*email_missing.*'claim email,.*received 'claims `);
    expect(lines.all).toEqual([expect.stringMatching(line)]);
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

  it('of one source is not shown beside the email of the other', async () => {
    for (const [host, idToken, userinfo, shown] of [
      [plain, of(undefined, true), of(VICTIM), of(VICTIM)],
      [strict, of(VICTIM), of(VICTIM, true), of(VICTIM, true)],
      [strictOfUpn, of(VICTIM), { upn: MALLORY, ...of(MALLORY, true) }, of(VICTIM)],
      [strictOfUpn, upn(of(VICTIM, true)), NONE, of(VICTIM, true)],
    ] as const) {
      bothSay(idToken, userinfo);
      const { email, email_verified: verified } = (await identityOf(await enter(host), host))?.claims ?? {};
      expect({ email, email_verified: verified }).toEqual(shown);
    }
  });
});
