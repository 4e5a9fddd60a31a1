/** Parameters of one login, over the options of the tenant. What is absent is taken from the tenant. Each text has 1 to 512 characters. */
export interface LoginParameters {
  /** `none`, or one or several of `login`, `consent`, `select_account` and `create`, separated by spaces. */
  prompt?: string;
  /** Who logs in, for the form of the provider. Sent as `login_hint`. */
  loginHint?: string;
  /** Requested authentication contexts, separated by spaces. Sent as `acr_values`. */
  acrValues?: string;
  /** Preferred languages (BCP 47), separated by spaces. Sent as `ui_locales`. */
  uiLocales?: string;
  /** Largest age of the authentication in seconds, from 0. The smaller of it and that of the tenant is sent and enforced. */
  maxAge?: number;
  /** GUID of the branding. Sent as `tenantId`. */
  brandingTenantId?: string;
}

/** The login that a callback belongs to. */
export interface StartedLogin {
  /** Key of the tenant. */
  tenant: string;
  /** The event that the login was started for. */
  eventId?: string;
  /** A path of this origin, percent-encoded. */
  returnTo?: string;
}
