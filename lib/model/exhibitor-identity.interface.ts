/** The user who is logged in. Plain data: do not use `instanceof`. */
export interface ExhibitorIdentity {
  /** Id of this login, by which a logout ends it. */
  id: string;
  /** `iss` of the provider. */
  issuer: string;
  /** `sub`: unique and stable within the issuer. The e-mail address is neither. */
  subject: string;
  /** Contact e-mail address, exactly as the provider sent it. */
  email: string;
  /** Other claims of the ID token and userinfo. */
  claims: Record<string, unknown>;
  /** Key of the tenant. */
  tenant: string;
  /** `X-Tenant-Id` of that tenant at the time of the login. */
  tenantId: string;
  /** `client_id` of the login. */
  clientId: string;
  /** Callback address of the login. An identity of another one belongs to another host, and is none here. */
  redirectUri: string;
  /**
   * Digest of issuer, client and `keys` that verified the login. A logout at the provider ends only identities of the same ones.
   * Bearer tokens have none.
   */
  registration?: string;
  /** Event of the login. */
  eventId?: string;
  /** Where to go after the login: a checked path of this host. */
  returnTo?: string;
  /** Session at the provider: `sid` of the ID token, if it has one. A back-channel logout may name it. */
  sid?: string;
  /**
   * Time of the login by the clock of the provider, in ms since 1970: `iat` of the ID token, or its arrival where that is
   * earlier. A back-channel logout ends the logins before it. Bearer tokens have none.
   */
  loggedInAt?: number;
  /** End of the identity, in ms since 1970. With `cookies.absoluteTtl` later requests have a later one. */
  expiresAt: number;
}
