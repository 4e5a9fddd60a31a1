/** What one step found. It shows no secret, token or e-mail address. */
export interface Finding {
  /** `options`, `names`, `tls`, `clock`, `token`, `tenant`, `list`, `lookup`, `metadata`, `keys`, `authorize`, `login` or `cookies`. */
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

/** What {@link diagnose} uses beside the options. */
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

export const unknown = (message: string): Verdict => ({ status: 'unknown', message });

export function wrong(
  option: string,
  message: string,
  advice = `Is it as onboarding says? ${whomToAsk(option)}`,
): Verdict {
  return { status: 'wrong', option, message, advice };
}

/** The verdict on wrong options with their messages; `proved` where there are none. */
export function wrongOr(
  proved: string,
  found: readonly (readonly [option: string, message: string])[],
): Verdict {
  const [options, messages] = [0, 1].map((at) => [...new Set(found.map((pair) => pair[at]))]);
  return found.length === 0 ? ok(proved) : wrong(options?.join(', ') ?? '', messages?.join('; ') ?? '');
}

function whomToAsk(option: string): string {
  return option.startsWith('login.') || option.startsWith('endpoints.')
    ? 'Ask the administrator of the identity provider.'
    : "Ask the service's onboarding.";
}
