import { afterAll } from '@jest/globals';
import { exportJWK, generateKeyPair, SignJWT, type CryptoKey, type JWK, type JWTPayload } from 'jose';
import type { TenantOptions } from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { useSandbox } from './lifetimes.js';
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

interface MintOptions {
  typ?: string | undefined;
  key?: CryptoKey;
  alg?: string;
  kid?: string;
}

/**
 * An identity provider that issues JWT access tokens to users, where the sandbox issues opaque ones. It signs tokens with its
 * own key and answers userinfo; everything else is that of the sandbox.
 */
export class FrontDoor {
  /** The userinfo reply for a token; 401 without an entry. */
  readonly userinfo = new Map<string, Record<string, unknown> | number>();
  /** Tokens of the requests to userinfo. */
  readonly userinfoCalls: string[] = [];

  private constructor(
    private readonly sandbox: ExhibitorSandbox,
    private readonly server: TestServer,
    private readonly privateKey: CryptoKey,
    private readonly publicJwk: JWK,
  ) {}

  static async open(sandbox: ExhibitorSandbox): Promise<FrontDoor> {
    const { privateKey, publicKey } = await generateKeyPair('EdDSA', { crv: 'Ed25519', extractable: true });
    const publicJwk = { ...(await exportJWK(publicKey)), kid: 'front-door', alg: 'EdDSA', use: 'sig' };
    const server = await startServer((request, response) => {
      const token = /^Bearer (.+)$/.exec(request.headers.authorization ?? '')?.[1] ?? '';
      door.userinfoCalls.push(token);
      const answer = door.userinfo.get(token) ?? 401;
      sendJson(response, ...(typeof answer === 'number' ? [{ error: 'invalid_token' }, answer] : [answer]));
    });
    const door = new FrontDoor(sandbox, server, privateKey, publicJwk);
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
        algorithms: ['RS256', 'EdDSA'],
        keys: { keys: [...jwksOf(this.sandbox).keys.map((jwk) => ({ ...jwk })), this.publicJwk] },
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
    { typ = 'at+jwt', key = this.privateKey, alg = 'EdDSA', kid = 'front-door' }: MintOptions = {},
  ): Promise<string> {
    return new SignJWT(this.claims(overrides))
      .setProtectedHeader({ alg, kid, ...(typ === '' ? {} : { typ }) })
      .sign(key);
  }
}
