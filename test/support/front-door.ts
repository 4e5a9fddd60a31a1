import { afterAll } from '@jest/globals';
import type { JWTPayload } from 'jose';
import type { TenantOptions } from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/development/testing/index.js';
import { useSandbox } from './lifetimes.js';
import { KEYS, sign, type SigningKey } from './provider-keys.js';
import { jwksOf } from './sandbox.js';
import { sendJson, startServer, type TestServer } from './server.js';

/** A sandbox and a front door for the tests of a file. */
export async function useFrontDoor(): Promise<{ sandbox: ExhibitorSandbox; door: FrontDoor }> {
  const sandbox = await useSandbox();
  const door = await FrontDoor.open(sandbox);
  afterAll(() => door.close());
  return { sandbox, door };
}

/** Audience of the users' access tokens. */
export const AUDIENCE = 'portal-api';

/** The identity provider of a sandbox, with access tokens and userinfo replies of the tests. */
interface MintOptions extends Partial<SigningKey> {
  typ?: string;
  /** Writes the claims as JSON. */
  write?: (claims: object) => string;
}

class FrontDoor {
  /** The userinfo reply for a token; 401 without an entry. */
  readonly userinfo = new Map<string, Record<string, unknown> | number>();
  /** Tokens of the requests to userinfo. */
  readonly userinfoCalls: string[] = [];

  private constructor(
    private readonly sandbox: ExhibitorSandbox,
    private readonly server: TestServer,
  ) {}

  static async open(sandbox: ExhibitorSandbox): Promise<FrontDoor> {
    const server = await startServer((request, response) => {
      const token = /^Bearer (.+)$/.exec(request.headers.authorization ?? '')?.[1] ?? '';
      door.userinfoCalls.push(token);
      const answer = door.userinfo.get(token) ?? 401;
      sendJson(response, ...(typeof answer === 'number' ? [{ error: 'invalid_token' }, answer] : [answer]));
    });
    const door = new FrontDoor(sandbox, server);
    return door;
  }

  close(): Promise<void> {
    return this.server.stop();
  }

  /** Options of a tenant with this identity provider, for logins by cookie and by token. */
  tenantOptions(key: string, redirectUri?: string): TenantOptions & { login: object } {
    const options = this.sandbox.tenantOptions(key, { redirectUri });
    return {
      ...options,
      endpoints: { userinfo: this.server.url },
      login: {
        ...options.login,
        audience: { idToken: options.login.clientId, accessToken: AUDIENCE },
        authorizedParties: ['portal-spa', 'portal-app'],
      },
    };
  }

  /** Claims of a valid access token of a person. */
  claims(overrides: JWTPayload = {}): JWTPayload {
    const now = Math.floor(Date.now() / 1000);
    return {
      iss: this.sandbox.url,
      aud: AUDIENCE,
      sub: 'sam.several',
      azp: 'portal-spa',
      email: 'sam.several@example.com',
      iat: now,
      exp: now + 600,
      ...overrides,
    };
  }

  /** Signs an access token; a claim that is `undefined` in the overrides is left out. */
  mint(
    overrides: JWTPayload = {},
    { typ = 'at+jwt', write = JSON.stringify, ...other }: MintOptions = {},
  ): Promise<string> {
    const key = { ...KEYS.next, kid: jwksOf(this.sandbox).keys[0]?.kid, ...other };
    return sign(write(this.claims(overrides)), key, { typ: typ === '' ? undefined : typ });
  }
}
