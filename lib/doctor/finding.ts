/** What one step found. It shows no secret, token or e-mail address. */
export interface Finding {
  /** `options`, `connection`, `clock`, `token`, `tenant`, `list`, `lookup`, `metadata`, `keys`, `authorize`, `login` or `cookies`. */
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

export type WrongOption = readonly [option: string, message: string];

/** Thrown by a step that did not prove what it tests. */
export class Unproved extends Error {
  constructor(readonly finding: Omit<Finding, 'step'>) {
    super(finding.message);
  }
}

export const unknown = (message: string): Unproved => new Unproved({ status: 'unknown', message });

export const notTested = (why: string): Unproved => unknown(`not tested: ${why}`);

export function wrong(
  option: string,
  message: string,
  advice = `Is it as onboarding says? Ask ${whomToAsk(option)}.`,
): Unproved {
  return new Unproved({ status: 'wrong', option, message, advice });
}

export function allWrong(found: readonly WrongOption[]): Unproved {
  const [options = [], messages = []] = [0, 1].map((at) => [...new Set(found.map((pair) => pair[at]))]);
  return wrong(options.join(', '), messages.join('; '));
}

function whomToAsk(options: string): string {
  const whom = options.split(', ').map((option) => {
    const isOfProvider = option.startsWith('login.') || option.startsWith('endpoints.');
    return isOfProvider ? 'the administrator of the identity provider' : "the service's onboarding";
  });
  return [...new Set(whom)].join(' and ');
}
