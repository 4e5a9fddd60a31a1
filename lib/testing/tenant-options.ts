import { JWKS_PATH } from './identity-provider.js';
import type { SeedTenant } from './seed.js';
import type { PublicJwk, SigningKey } from './signing-key.js';

/** `TenantOptions` of the module, filled with what this sandbox handed out at onboarding. */
export interface SandboxTenantOptions {
  tenantId: string;
  baseUrl: string;
  authUrl: string;
  clientId: string;
  clientSecret: string;
  login: {
    clientId: string;
    clientSecret?: string;
    redirectUri: string;
    issuer: string;
    keys: string | { keys: PublicJwk[] };
    responseType: SandboxResponseType;
  };
}

export type SandboxResponseType = 'code' | 'code id_token' | 'code token id_token';

/** What a test wants differently in {@link SandboxTenantOptions}. */
export interface TenantOptionsOverrides {
  /** Default `http://127.0.0.1:3000/auth/callback`; any address on loopback is accepted. */
  readonly redirectUri?: string;
  /** Default `code`. */
  readonly responseType?: SandboxResponseType;
  /** The login client without a secret. Default `false`. */
  readonly publicClient?: boolean;
  /** How the public key is given: as a JWKS object (default), as PEM, or as the URL of the JWKS. */
  readonly keys?: 'jwks' | 'pem' | 'url';
}

/** Onboarding, in one object. */
export function tenantOptionsOf(
  tenant: SeedTenant,
  url: string,
  key: SigningKey,
  overrides: TenantOptionsOverrides = {},
): SandboxTenantOptions {
  const {
    redirectUri = 'http://127.0.0.1:3000/auth/callback',
    responseType = 'code',
    publicClient = false,
  } = overrides;
  const { tenantId, clientId, clientSecret, loginClientId, loginClientSecret, publicLoginClientId } = tenant;
  return {
    tenantId,
    baseUrl: url,
    authUrl: url,
    clientId,
    clientSecret,
    login: {
      ...(publicClient
        ? { clientId: publicLoginClientId }
        : { clientId: loginClientId, clientSecret: loginClientSecret }),
      redirectUri,
      issuer: url,
      keys: keysAs(overrides.keys ?? 'jwks', url, key),
      responseType,
    },
  };
}

function keysAs(form: 'jwks' | 'pem' | 'url', url: string, key: SigningKey): string | { keys: PublicJwk[] } {
  switch (form) {
    case 'pem':
      return key.publicKeyPem;
    case 'url':
      return `${url}${JWKS_PATH}`;
    case 'jwks':
      return { keys: [...key.publicJwks.keys] };
  }
}
