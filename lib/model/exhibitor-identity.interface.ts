/** Who is logged in, at which tenant. Plain data: never test it with `instanceof`. */
export interface ExhibitorIdentity {
  /** Identifies this login; a logout denies it. */
  id: string;
  /** `iss` of the provider. */
  issuer: string;
  /** `sub`: unique and stable within the issuer, unlike the e-mail address. */
  subject: string;
  /** Contact e-mail address, byte for byte as the provider sent it. */
  email: string;
  /** Further claims of the ID token and userinfo. */
  claims: Record<string, unknown>;
  /** Key of the tenant the person logged in at. */
  tenant: string;
  /** `X-Tenant-Id` of that tenant at the time of the login. */
  tenantId: string;
  /** Client the login was made for. */
  clientId: string;
  /** Event the login was started for. */
  eventId?: string;
  /** Path of this host to go on to; already checked. */
  returnTo?: string;
  /** When the identity ends, in ms since the epoch. */
  expiresAt: number;
}
