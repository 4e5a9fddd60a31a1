import { beforeAll, describe, expect, it } from '@jest/globals';
import { contactEmail } from '../../lib/oidc/user-info.service.js';
import { userClaims } from '../../lib/oidc/user-info.service.js';
import type { Host } from '../support/host.js';
import { OperatorLines } from '../support/operator-lines.js';
import type { ScriptedProvider } from '../support/provider.js';
import { changes, type Claims } from '../support/provider-script.js';
import { Visitor } from '../support/visitor.js';
import { withProvider } from './hosts.js';
import { expectAccepted, expectRefusal, identityOf, logIn } from './journey.js';

const VICTIM = 'victim@example.com';
const MALLORY = 'mallory@example.com';
const NONE: Claims = { email: undefined, email_verified: undefined };

/** What the ID token and userinfo say, and whether that verifies the address of the login. */
interface Case {
  what: string;
  token: Claims;
  userinfo: Claims;
  emailClaim?: string;
}

const VERIFIED: readonly Case[] = [
  {
    what: 'the ID token says it of its own address',
    token: { email: VICTIM, email_verified: true },
    userinfo: NONE,
  },
  {
    what: 'the ID token says it as text',
    token: { email: VICTIM, email_verified: 'true' },
    userinfo: NONE,
  },
  {
    what: 'userinfo says it of its own address',
    token: NONE,
    userinfo: { email: VICTIM, email_verified: true },
  },
  {
    what: 'userinfo says it of the same address',
    token: { email: VICTIM, email_verified: undefined },
    userinfo: { email: VICTIM, email_verified: true },
  },
  {
    what: 'emailClaim has the same address as the verified email',
    token: { upn: VICTIM, email: VICTIM, email_verified: true },
    userinfo: NONE,
    emailClaim: 'upn',
  },
  {
    what: 'userinfo verifies the address of emailClaim in the ID token',
    token: { upn: VICTIM, email: MALLORY, email_verified: true },
    userinfo: { email: VICTIM, email_verified: true },
    emailClaim: 'upn',
  },
];

const UNVERIFIED: readonly Case[] = [
  {
    what: 'userinfo verifies another address',
    token: { email: VICTIM, email_verified: undefined },
    userinfo: { email: MALLORY, email_verified: true },
  },
  {
    what: 'the ID token verifies nothing and userinfo has the address',
    token: { email: undefined, email_verified: true },
    userinfo: { email: VICTIM, email_verified: undefined },
  },
  {
    what: 'userinfo verifies, but has no address',
    token: { email: VICTIM, email_verified: undefined },
    userinfo: { email: undefined, email_verified: true },
  },
  {
    what: 'the verified email is not that of emailClaim',
    token: { upn: VICTIM, email: MALLORY, email_verified: true },
    userinfo: NONE,
    emailClaim: 'upn',
  },
  {
    what: 'emailClaim stands beside a flag without an email',
    token: { upn: VICTIM, email: undefined, email_verified: true },
    userinfo: NONE,
    emailClaim: 'upn',
  },
  {
    what: 'the addresses differ in case',
    token: { email: VICTIM, email_verified: undefined },
    userinfo: { email: VICTIM.toUpperCase(), email_verified: true },
  },
  {
    what: 'the flag is a list',
    token: { email: VICTIM, email_verified: [true] },
    userinfo: NONE,
  },
  {
    what: 'the ID token verifies the address and userinfo denies it',
    token: NONE,
    userinfo: { email: VICTIM, email_verified: 'false' },
  },
];

let provider: ScriptedProvider;
const start = withProvider((started) => (provider = started));
let plain: Host;
/** With `requireVerifiedEmail`, by the claim with the address. */
let strict: Record<string, Host>;
beforeAll(async () => {
  plain = await start();
  const withClaim = (emailClaim: string): Promise<Host> =>
    start({ login: { requireVerifiedEmail: true, emailClaim } });
  strict = { email: await withClaim('email'), upn: await withClaim('upn') };
});

function says({ token, userinfo }: Case): void {
  provider.script = {
    backToken: { claims: (all) => void Object.assign(all, token) },
    userinfo: changes(userinfo),
  };
}

describe('requireVerifiedEmail', () => {
  it.each(VERIFIED)('accepts where $what', async (given) => {
    says(given);
    const host = strict[given.emailClaim ?? 'email'] as Host;
    const visitor = new Visitor();
    expect((await logIn(visitor, host)).status).toBe(303);
    expect((await identityOf(visitor, host))?.email).toBe(VICTIM);
  });

  it.each(UNVERIFIED)('refuses where $what', async (given) => {
    says(given);
    const host = strict[given.emailClaim ?? 'email'] as Host;
    const visitor = new Visitor();
    expectRefusal(await logIn(visitor, host), 'email_unverified');
    expect(await identityOf(visitor, host)).toBeUndefined();
  });

  it('is not needed for the first of two addresses, unless it is set', async () => {
    says({
      what: '',
      token: { email: VICTIM, email_verified: undefined },
      userinfo: { email: MALLORY, email_verified: true },
    });
    const visitor = new Visitor();
    expect((await logIn(visitor, plain)).status).toBe(303);
    expect((await identityOf(visitor, plain))?.email).toBe(VICTIM);
  });
});

describe('an address that could name another contact in a path, or is too long', () => {
  it('counts as none', async () => {
    for (const email of [
      `./${VICTIM}`,
      `/${VICTIM}`,
      `x/../${VICTIM}`,
      `..%252f${VICTIM}`,
      `..;/${VICTIM}`,
      `${'a'.repeat(300)}@example.com`,
    ]) {
      says({ what: '', token: { email }, userinfo: { email } });
      const mallory = new Visitor();
      expectRefusal(await logIn(mallory, plain), 'email_missing');
      expect(await identityOf(mallory, plain)).toBeUndefined();
    }
    says({ what: '', token: { email: `./${VICTIM}` }, userinfo: { email: MALLORY } });
    const visitor = new Visitor();
    expect((await logIn(visitor, plain)).status).toBe(303);
    expect((await identityOf(visitor, plain))?.email).toBe(MALLORY);
  });
});

describe('email_verified', () => {
  const rules = { emailClaim: 'email', requireVerifiedEmail: true };

  it.each([false, 'false'])('%j of either source is a refusal, whatever the other says', (refused) => {
    const good = { email: VICTIM, email_verified: true };
    const bad = { email: MALLORY, email_verified: refused };
    for (const requireVerifiedEmail of [true, false]) {
      for (const sources of [
        [good, bad],
        [bad, good],
      ]) {
        expect(contactEmail(sources, { ...rules, requireVerifiedEmail })).toEqual({
          reason: 'email_unverified',
        });
      }
    }
    expect(contactEmail([good], rules)).toEqual({ email: VICTIM });
  });

  it.each<[string, Claims, Claims]>([
    ['in both', { email: undefined, email_verified: false }, NONE],
    ['in userinfo', NONE, { email: undefined, email_verified: 'false' }],
  ])(
    'that is false without any address, %s, is email_missing, and an operator reads it',
    async (_, token, userinfo) => {
      says({ what: '', token, userinfo });
      const host = await start();
      const lines = new OperatorLines();
      host.app.useLogger(lines);
      expectRefusal(await logIn(new Visitor(), host), 'email_missing');
      expect(lines.all).toEqual([
        expect.stringMatching(
          /^tenant\.login\.scope, tenant\.login\.emailClaim: .*email_missing.*'claim email,.*received 'claims /,
        ),
      ]);
    },
  );

  it('that is false counts where the address is in the other source', async () => {
    const denied = { email: undefined, email_verified: false };
    for (const [token, userinfo] of [
      [denied, { email: VICTIM, email_verified: undefined }],
      [{ email: VICTIM, email_verified: false }, NONE],
    ] as const) {
      says({ what: '', token, userinfo });
      expectRefusal(await logIn(new Visitor(), plain), 'email_unverified');
    }
  });

  it.each<[string, Claims, asked: boolean]>([
    ['decides', { email: VICTIM, email_verified: true }, false],
    ['refuses', { email: VICTIM, email_verified: false }, false],
    ['refuses, but has no address', { email: undefined, email_verified: false }, true],
    ['leaves it open', { email: VICTIM, email_verified: undefined }, true],
    ['names no address', { email: undefined, email_verified: true }, true],
  ])('of the ID token that %s makes userinfo unnecessary or not', async (what, token, asked) => {
    says({ what, token, userinfo: { email: VICTIM, email_verified: true } });
    const before = provider.count('/connect/userinfo');
    await logIn(new Visitor(), strict['email'] as Host);
    expect(provider.count('/connect/userinfo') - before).toBe(asked ? 1 : 0);
  });

  it('of one source is not shown beside the email of the other', () => {
    const unsaid = { sub: 'pat', email: VICTIM };
    const flagged = { email: MALLORY, email_verified: true, name: 'Pat' };
    expect(userClaims(unsaid, flagged)).toEqual({ sub: 'pat', email: VICTIM, name: 'Pat' });
    expect(userClaims({ email_verified: true }, { email: VICTIM })).toEqual({ email: VICTIM });
    expect(userClaims(unsaid, { email: VICTIM, email_verified: true })).toEqual({
      sub: 'pat',
      email: VICTIM,
      email_verified: true,
    });
    expect(userClaims(flagged, undefined)).toEqual(flagged);
  });
});

describe('the address', () => {
  const tokenSays = (claims: Claims): void => {
    provider.script = { backToken: { claims: (all) => void Object.assign(all, claims) } };
  };

  it('may be without email_verified, unless it is required', async () => {
    tokenSays({ email_verified: undefined });
    provider.script.userinfo = changes({ email_verified: undefined });
    await expectAccepted(plain);
    expectRefusal(await logIn(new Visitor(), strict['email'] as Host), 'email_unverified');
  });

  it('is read byte for byte from the configured claim', async () => {
    tokenSays({ upn: 'Zoë+Fair@Example.COM' });
    const host = await start({ login: { emailClaim: 'upn' } });
    const visitor = new Visitor();
    await logIn(visitor, host);
    expect((await identityOf(visitor, host))?.email).toBe('Zoë+Fair@Example.COM');
  });

  it('is not read from inherited properties', async () => {
    const host = await start({ login: { emailClaim: 'constructor' } });
    expectRefusal(await logIn(new Visitor(), host), 'email_missing');
  });
});
