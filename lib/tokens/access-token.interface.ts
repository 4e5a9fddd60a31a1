/** A client-credentials access token of a tenant. */
export interface AccessToken {
  /** Sent as `Authorization: Bearer <accessToken>`; never log it. */
  readonly accessToken: string;
  readonly tokenType: 'Bearer';
  /** What was granted; what was asked for where the reply does not say (RFC 6749 §5.1). */
  readonly scope: string | undefined;
  /** When it ends, by this machine's clock. */
  readonly expiresAt: Date;
}

/** Options of {@link TokenService.getToken}. */
export interface GetTokenOptions {
  /** Key of the tenant; may be left out where there is only one. */
  tenant?: string;
  /** Stops the waiting of this caller, never the renewal that others wait for. */
  signal?: AbortSignal;
}

/** Options of {@link TokenService.invalidate}. */
export interface InvalidateOptions {
  /** Key of the tenant; may be left out where there is only one. */
  tenant?: string;
  /** Only this very token: one that was renewed since stays. */
  rejected?: string;
}
