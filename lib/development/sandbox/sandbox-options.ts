import { randomBytes } from 'node:crypto';
import type { JWK } from 'jose';
import type { LoginOptions } from '../../index.js';
import { HOST_VARIABLES, SECRET_VARIABLE } from '../../model/host-variables.js';
import { JWKS_PATH } from './server/operations.js';
import type { SandboxSeed, SeedTenant } from './seed/seed.js';
import type { SigningKey } from './provider/signing-key.js';

const REDIRECT_URI = 'http://127.0.0.1:3000/auth/callback';

/** Options of `ExhibitorSandbox.start`. */
export interface SandboxOptions {
  /** Port on 127.0.0.1. Default 0: any free port. */
  readonly port?: number;
  /** Tenants, events, people and exhibitors. Default `defaultSeed()`. */
  readonly seed?: SandboxSeed;
  /**
   * RSA private key of the identity provider (PEM). Default: a new one, which takes about 200 ms to generate.
   *
   * @internal
   */
  readonly signingKey?: string;
  /** Where a login may end. Default: at every http URI on loopback. @internal */
  readonly redirectUris?: readonly string[];
}

/** `TenantOptions` of `ExhibitorModule` with the values of a sandbox. */
export type SandboxTenantOptions = ReturnType<typeof createTenantOptions>;

/** Settings of `ExhibitorSandbox.tenantOptions`. */
export interface TenantOptionsOverrides {
  /** Default `http://127.0.0.1:3000/auth/callback`. The provider accepts every http URI on loopback. */
  readonly redirectUri?: string;
  /** `response_type` of the authorization request. Default `code`. */
  readonly responseType?: LoginOptions['responseType'];
  /** Selects the public login client, which has no secret. Default `false`. */
  readonly publicClient?: boolean;
  /** Format of the public key: JWKS object, PEM, or the URL of the JWKS. Default `jwks`. */
  readonly keys?: 'jwks' | 'pem' | 'url';
}

/** Settings of `ExhibitorSandbox.environment`. */
export interface EnvironmentOverrides extends Pick<TenantOptionsOverrides, 'redirectUri' | 'publicClient'> {
  /** What the names of the variables begin with, such as `ACME_`. Default: nothing. */
  readonly prefix?: string;
}

export function createTenantOptions(
  { url, key }: { readonly url: string; readonly key: SigningKey },
  tenant: SeedTenant,
  overrides: TenantOptionsOverrides = {},
) {
  const { redirectUri = REDIRECT_URI, responseType = 'code', publicClient, keys = 'jwks' } = overrides;
  const forms: Record<'jwks' | 'pem' | 'url', string | { keys: JWK[] }> = {
    jwks: { keys: [key.publicJwk] },
    pem: key.publicKey.export({ format: 'pem', type: 'spki' }).toString(),
    url: `${url}${JWKS_PATH}`,
  };
  const { tenantId, clientId, clientSecret, publicLoginClientId, loginClientId, loginClientSecret } = tenant;
  const client: { clientId: string; clientSecret?: string } =
    publicClient === true
      ? { clientId: publicLoginClientId }
      : { clientId: loginClientId, clientSecret: loginClientSecret };
  const login = { redirectUri, issuer: url, keys: forms[keys], responseType, ...client };
  return { tenantId, baseUrl: url, authUrl: url, clientId, clientSecret, login };
}

/** The variables of a host by name, without those of absent options. */
export function createEnvironment(tenant: SandboxTenantOptions, prefix = ''): Record<string, string> {
  const variables = Object.entries(HOST_VARIABLES).flatMap(([path, name]) => {
    const value = path.split('.').reduce<unknown>((options, option) => Object(options)[option], tenant);
    return value === undefined ? [] : [[prefix + name, String(value)]];
  });
  return { ...Object.fromEntries(variables), [SECRET_VARIABLE]: randomBytes(32).toString('base64url') };
}
