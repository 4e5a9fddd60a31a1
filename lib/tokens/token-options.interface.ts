/** Options of `TokenService.getToken`. */
export interface GetTokenOptions {
  /** Key of the tenant. Default: the only one. */
  tenant?: string | undefined;
  /** Ends the waiting of this caller, not the token request that others wait for. */
  signal?: AbortSignal | undefined;
}

/** Options of `TokenService.invalidate`. */
export interface InvalidateOptions {
  /** Key of the tenant. Default: the only one. */
  tenant?: string | undefined;
  /** Invalidates only this token. A newer one is kept. */
  rejected?: string | undefined;
}
