/** A client-credentials access token of a tenant. */
export interface AccessToken {
  /** Sent as `Authorization: Bearer <accessToken>`; never log it. */
  readonly accessToken: string;
  readonly tokenType: 'Bearer';
  /** Granted scope; the requested one where the reply names none (RFC 6749 §5.1). */
  readonly scope: string | undefined;
  /** End of the lifetime, by this machine's clock. */
  readonly expiresAt: Date;
}

/** Options of {@link TokenService.getToken}. */
export interface GetTokenOptions {
  /** Key of the tenant. Default: the only one. */
  tenant?: string | undefined;
  /** Ends the waiting of this caller, not the token request that others wait for. */
  signal?: AbortSignal | undefined;
}

/** Options of {@link TokenService.invalidate}. */
export interface InvalidateOptions {
  /** Key of the tenant. Default: the only one. */
  tenant?: string | undefined;
  /** Invalidates only this token. A newer one is kept. */
  rejected?: string | undefined;
}
