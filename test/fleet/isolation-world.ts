import { exportJWK, generateKeyPair, SignJWT, type CryptoKey, type JWK } from 'jose';
import type { TenantOptions } from '../../lib/index.js';
import { defaultSeed, type ExhibitorSandbox, type SandboxExhibitor } from '../../lib/testing/index.js';
import { jwksOf, startSandbox } from '../support/sandbox.js';
import type { TracedRequest } from '../support/traced-requests.js';

/** The same people and events at every tenant, so that a mixed-up key would find something. */
export const PEOPLE = {
  'olga.one': 'olga.one@example.com',
  'sam.several': 'sam.several@example.com',
  'zoe.fair': 'zoë+fair@example.com',
};
export const EVENTS = ['fair', 'expo'];

type Person = keyof typeof PEOPLE;
export const PERSONS: readonly Person[] = ['olga.one', 'sam.several', 'zoe.fair'];

/** An exhibitor names its tenant and event in its id. */
function exhibitorsOf(tenant: string, event: string): SandboxExhibitor[] {
  return PERSONS.flatMap((person, index) => [
    { id: `${tenant}|${event}|${index}`, contactEmails: [PEOPLE[person]] },
    { id: `${tenant}|${event}|${index}-shared`, contactEmails: Object.values(PEOPLE) },
  ]);
}

/** A sandbox with many tenants, and what says to whom a value belongs. */
export class IsolationWorld {
  private constructor(
    readonly sandbox: ExhibitorSandbox,
    readonly owners: readonly string[],
    private readonly privateKey: CryptoKey,
    private readonly publicJwk: JWK,
  ) {}

  static async create(tenants: number): Promise<IsolationWorld> {
    const seed = defaultSeed();
    const [acme] = seed.tenants.splice(0);
    const owners = Array.from({ length: tenants }, (_, number) => `t${number}`);
    for (const key of owners) {
      if (acme !== undefined) {
        seed.tenants.push({
          ...acme,
          key,
          tenantId: `id-of-${key}`,
          clientId: `${key}-api`,
          clientSecret: `api secret of ${key}`,
          loginClientId: `${key}-web`,
          loginClientSecret: `web secret of ${key}`,
          publicLoginClientId: `${key}-app`,
        });
      }
      seed.exhibitors[key] = Object.fromEntries(EVENTS.map((event) => [event, exhibitorsOf(key, event)]));
    }
    const { privateKey, publicKey } = await generateKeyPair('EdDSA', { crv: 'Ed25519', extractable: true });
    const jwk = { ...(await exportJWK(publicKey)), kid: 'users', alg: 'EdDSA', use: 'sig' };
    return new IsolationWorld(await startSandbox({ seed }), owners, privateKey, jwk);
  }

  /** Options of a tenant of the service; with a wrong secret, that names its tenant too. */
  optionsOf(owner: string, redirectUri: string, isSecretWrong = false): TenantOptions {
    const { login, ...options } = this.sandbox.tenantOptions(owner, { redirectUri });
    return {
      ...options,
      ...(isSecretWrong ? { clientSecret: `wrong secret of ${owner}` } : {}),
      login: {
        clientId: login.clientId,
        clientSecret: `web secret of ${owner}`,
        redirectUri,
        issuer: this.sandbox.url,
        algorithms: ['RS256', 'EdDSA'],
        keys: { keys: [...jwksOf(this.sandbox).keys.map((jwk) => ({ ...jwk })), this.publicJwk] },
        audience: { idToken: login.clientId, accessToken: `audience of ${owner}` },
        authorizedParties: [`${owner}-spa`],
        requireIss: false,
      },
    };
  }

  /** An access token of a person, for the host, from a tenant of the service. */
  userToken(owner: string, person: Person): Promise<string> {
    const now = Math.floor(Date.now() / 1_000);
    return new SignJWT({ azp: `${owner}-spa`, email: PEOPLE[person], sub: person, iat: now, exp: now + 600 })
      .setProtectedHeader({ alg: 'EdDSA', kid: 'users', typ: 'at+jwt' })
      .setIssuer(this.sandbox.url)
      .setAudience(`audience of ${owner}`)
      .sign(this.privateKey);
  }
}

/** Parts of a recorded request that say whose it is. */
export type Traced = Pick<TracedRequest, 'operation' | 'tenantId' | 'tokenClaims' | 'clientId' | 'body'>;

/** What is wrong with a request that reached the sandbox; `undefined` where all of it belongs to one tenant. */
export function mixUpIn(request: Traced): string | undefined {
  const { operation, tenantId, tokenClaims, clientId, body } = request;
  if (operation === 'token') {
    const owner = clientId?.split('-')[0];
    const allowed = ['api', 'wrong', 'web'].map((kind) => `${kind} secret of ${owner}`);
    const secret = String(body['client_secret']);
    return allowed.includes(secret) ? undefined : `token request of ${clientId} with "${secret}"`;
  }
  if (operation !== 'list' && operation !== 'lookup') {
    return undefined;
  }
  const token = String(tokenClaims?.['client_id']);
  const isOne = `id-of-${token}` === `${tenantId}-api` && clientId === token;
  return isOne ? undefined : `${operation} with the token of ${token} for ${tenantId}`;
}
