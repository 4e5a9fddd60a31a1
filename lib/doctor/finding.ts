import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { shownUrl } from '../problems/address-problems.js';
import { problemText } from '../problems/problem-log.service.js';
import type { Problem } from '../problems/problem.interface.js';

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

/** Thrown by a step that did not prove what it tests. */
export class Unproved extends Error {
  constructor(readonly finding: Omit<Finding, 'step'>) {
    super(finding.message);
  }
}

export const unknown = (message: string): Unproved => new Unproved({ status: 'unknown', message });

export const notTested = (why: string): Unproved => unknown(`not tested: ${why}`);

export function wrong(options: readonly string[], message: string, advice = adviceOn(options)): Unproved {
  return new Unproved({ status: 'wrong', option: options.join(', '), message, advice });
}

function adviceOn(options: readonly string[]): string {
  const isOfProvider = (option: string): boolean =>
    option.startsWith('login.') || option.startsWith('endpoints.');
  const whom = options.map((option) =>
    isOfProvider(option) ? 'the administrator of the identity provider' : "the service's onboarding",
  );
  return `Is it as onboarding says? Ask ${[...new Set(whom)].join(' and ')}.`;
}

/** What a service of the module was asked, and what it reported to the operator. */
export interface Asked {
  url?: string;
  /** Sets the URL. */
  option?: string;
  problem?: Problem | undefined;
}

/** What an error says of the options. Errors of other kinds are thrown again. */
export function verdictOf(error: unknown, { url, option = '', problem }: Asked = {}): Unproved {
  if (error instanceof Unproved) {
    return error;
  }
  if (!isExhibitorError(error)) {
    throw error;
  }
  if (error.code === 'configuration_invalid') {
    const options = error.problems.map(({ path }) => path.replace('tenant.', ''));
    const messages = error.problems.map(({ expected }, at) => `${options[at]} ${expected}`);
    return options[0] === 'login'
      ? notTested('the options have no login in the browser')
      : wrong(options, messages.join('; '));
  }
  if (error.code === 'invalid_argument') {
    // The message begins with the name of the argument.
    return wrong([error.message.slice(0, error.message.indexOf(' '))], error.message);
  }
  if (url === undefined || error.code === 'aborted') {
    throw error;
  }
  const address = shownUrl(url);
  const { status = 0 } = error;
  if ([404, 405].includes(status) || Object(error)['oauthError'] === `http_${status}`) {
    return wrong([option], `${address} answers ${status}`);
  }
  const text = problem === undefined ? error.message : problemText(problem);
  const message = text.includes(address) ? text : `${address}: ${text}`;
  const isUseless = error.code === 'malformed_response' || error.code === 'login_failed';
  const options = problem?.options ?? (isUseless ? [option] : []);
  return options.length > 0 ? wrong(options, message) : unknown(`${message}: try again later`);
}
