import { SignJWT } from 'jose';
import type { TenantOptions } from '../../lib/index.js';
import {
  defaultSeed,
  type ExhibitorSandbox,
  type SandboxExhibitor,
} from '../../lib/development/testing/index.js';
import { signingKey } from '../support/provider-keys.js';
import { jwksOf, startSandbox } from '../support/sandbox.js';
import type { TracedRequest } from '../support/traced-requests.js';

/** The same people and events at every tenant, so that a mixed-up key would find something. */
export const PERSONS = ['olga.one@example.com', 'sam.several@example.com', 'zoë+fair@example.com'];
export const EVENTS = ['fair', 'expo'];

/** An exhibitor names its tenant and event in its id. */
function exhibitorsOf(tenant: string, event: string): SandboxExhibitor[] {
  return PERSONS.flatMap((person, index) => [
    { id: `${tenant}|${event}|${index}`, contactEmails: [person] },
    { id: `${tenant}|${event}|${index}-shared`, contactEmails: PERSONS },
  ]);
}

/** A sandbox with many tenants. Ids, secrets and tokens of each say whose they are. */
export class FleetWorld {
  /** Signs access tokens of people. */
  readonly #key = signingKey('ES256');
  private constructor(readonly sandbox: ExhibitorSandbox) {}

  static async start(keys: readonly string[]): Promise<FleetWorld> {
    const seed = defaultSeed();
    seed.tenants = keys.map((key) => ({
      key,
      name: key,
      tenantId: `id-of-${key}`,
      clientId: `${key}-api`,
      clientSecret: `api secret of ${key}`,
      loginClientId: `${key}-web`,
      loginClientSecret: `web secret of ${key}`,
      publicLoginClientId: `${key}-app`,
    }));
    for (const key of keys) {
      seed.exhibitors[key] = Object.fromEntries(EVENTS.map((event) => [event, exhibitorsOf(key, event)]));
    }
    return new FleetWorld(await startSandbox({ seed }));
  }

  /** Options of a tenant of the service; with a wrong secret, that names its tenant too. */
  optionsOf(owner: string, redirectUri?: string, isSecretWrong = false): TenantOptions {
    const { login, ...options } = this.sandbox.tenantOptions(owner, { redirectUri });
    return {
      ...options,
      ...(isSecretWrong ? { clientSecret: `wrong secret of ${owner}` } : {}),
      login: {
        ...login,
        keys: { keys: [...jwksOf(this.sandbox).keys.map((jwk) => ({ ...jwk })), this.#key.jwk] },
        audience: { idToken: login.clientId, accessToken: `audience of ${owner}` },
        authorizedParties: [`${owner}-spa`],
        requireIss: false,
      },
    };
  }

  /** An access token of a person, for the host, from a tenant of the service. */
  userToken(owner: string, person: string): Promise<string> {
    const now = Math.floor(Date.now() / 1_000);
    return new SignJWT({ azp: `${owner}-spa`, email: person, sub: person, iat: now, exp: now + 600 })
      .setProtectedHeader({ alg: 'ES256', kid: String(this.#key.kid), typ: 'at+jwt' })
      .setIssuer(this.sandbox.url)
      .setAudience(`audience of ${owner}`)
      .sign(this.#key.privateKey);
  }
}

/** What is wrong with a request that reached the sandbox; `undefined` where all of it belongs to one tenant. */
export function mixUpIn(request: TracedRequest): string | undefined {
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
