/** What one step found. It shows no secret, token or e-mail address. */
export interface Finding {
  /** In this order: `options`, `names`, `tls`, `clock`, `token`, `tenant`, `list`, `lookup`, `metadata`, `keys`, `authorize`, `login`, `cookies`. */
  step: string;
  /** `unknown`: not tested, or the replies prove nothing. */
  status: 'ok' | 'wrong' | 'unknown';
  /** Path of the option to change, `login.issuer`. Several, with commas, where no reply tells them apart: `clientSecret, clientId`. */
  option?: string;
  /** What was proved, and what was not. */
  message: string;
  /** What to do, and whom to ask. */
  advice?: string;
}

/** What `diagnose` uses beside the options. */
export interface DiagnosisHints {
  /** An event of the tenant. Without it the list is not tested. */
  eventId?: string | undefined;
  /** E-mail address of an exhibitor of that event. Without it the lookup is not tested. */
  contactEmail?: string | undefined;
  /** Address of the page where logins start. Without it the cookies are not tested. */
  startUrl?: string | undefined;
  /** Ends the diagnosis, which then throws `aborted`. */
  signal?: AbortSignal | undefined;
}

/** A {@link Finding} without its step. */
export type Verdict = Omit<Finding, 'step'>;

export const ok = (message: string): Verdict => ({ status: 'ok', message });

export const unknown = (message: string, advice?: string): Verdict => ({
  status: 'unknown',
  message,
  advice,
});

export const wrong = (option: string, message: string, advice: string): Verdict => ({
  status: 'wrong',
  option,
  message,
  advice,
});

/** Whom to ask. */
export const HOST = 'Ask the operator of this host.';
export const SERVICE = "Compare with the values from onboarding; ask the service's onboarding.";
export const PROVIDER =
  'Compare with the values from onboarding; ask the administrator of the identity provider.';

export const NO_LOGIN = unknown('not tested: the options have no login in the browser');
