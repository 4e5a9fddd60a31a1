import { HttpException } from '@nestjs/common';
import {
  HTTP_STATUS_BY_CODE,
  isExhibitorError,
  LoginFailedError,
  type ExhibitorError,
  type ExhibitorErrorCode,
  type LoginFailureReason,
} from 'nestjs-exhibitor';

/** What a page says about an error. It contains no host names, tokens or stack traces. */
interface ProblemText {
  title: string;
  text: string;
  /**
   * The link that the page offers: `retry` repeats the request, `login` leads to the login, `again` and `switch` to a login where
   * the provider asks who logs in, `continue` to where the finished login led.
   */
  action?: 'retry' | 'login' | 'again' | 'switch' | 'continue';
}

/** An error as shown to a person. */
export interface Problem extends ProblemText {
  status: number;
}

const NOT_FOUND: ProblemText = {
  title: 'There is nothing here',
  text: 'The address may be wrong, or the event is no longer listed.',
};
const INVALID: ProblemText = {
  title: 'That request is not quite right',
  text: 'The address or the form contains an invalid value.',
};
const UNAVAILABLE: ProblemText = {
  title: 'The exhibitor service is not available',
  text: 'It did not respond correctly. Please try again in a moment.',
  action: 'retry',
};
const UNEXPECTED: ProblemText = {
  title: 'The exhibitor service gave an unexpected answer',
  text: 'The answer could not be processed. Please try again. If the problem persists, contact the organiser.',
  action: 'retry',
};
const INTERNAL: ProblemText = {
  title: 'An internal error occurred',
  text: 'The error was logged. Please try again later.',
};

/** Texts by error code. Codes are stable; messages are not. */
const BY_CODE: Readonly<Record<Exclude<ExhibitorErrorCode, 'login_failed'>, ProblemText>> = {
  unauthenticated: { title: 'Please log in', text: 'This page requires a login.', action: 'login' },
  no_exhibitor: {
    title: 'No exhibitor for you at this event',
    text: 'Your e-mail address is not a contact of any exhibitor of this event. Ask your exhibitor to add it, or log in as another person.',
    action: 'switch',
  },
  exhibitor_not_selected: {
    title: 'Choose an exhibitor first',
    text: 'You belong to several exhibitors of this event.',
  },
  not_found: NOT_FOUND,
  unknown_tenant: NOT_FOUND,
  invalid_argument: INVALID,
  event_required: INVALID,
  rate_limited: {
    title: 'Too many requests',
    text: 'The exhibitor service limits the number of requests. Please try again in a moment.',
    action: 'retry',
  },
  service_unavailable: UNAVAILABLE,
  token_unavailable: UNAVAILABLE,
  deadline_exceeded: {
    title: 'The request timed out',
    text: 'The exhibitor service did not answer in time. Please try again.',
    action: 'retry',
  },
  aborted: { title: 'The request was cancelled', text: 'Please try again.', action: 'retry' },
  pagination_drift: {
    title: 'The list changed while it was loading',
    text: 'Please try again to load the current list.',
    action: 'retry',
  },
  malformed_response: UNEXPECTED,
  access_denied: UNEXPECTED,
  request_rejected: UNEXPECTED,
  token_rejected: UNEXPECTED,
  tenant_required: INTERNAL,
  configuration_invalid: INTERNAL,
};

const LOGIN_FAILED: ProblemText = {
  title: 'The login failed',
  text: 'Your identity could not be verified. Please try again.',
  action: 'login',
};

const PROVIDER_UNAVAILABLE: ProblemText = {
  title: 'The login service is not available',
  text: 'It did not respond correctly. Please log in again in a moment.',
  action: 'login',
};

/** Texts by the reason of a failed login. Other reasons use {@link LOGIN_FAILED}. */
const BY_LOGIN_REASON: Readonly<Partial<Record<LoginFailureReason, ProblemText>>> = {
  // The provider would answer in silence for the account that it knows, and the login would fail again.
  denied: { title: 'The login was cancelled', text: 'You can log in at any time.', action: 'again' },
  state: {
    title: 'This login is no longer valid',
    text: 'It has expired or was already completed. Please start it again.',
    action: 'login',
  },
  email_missing: {
    title: 'Your account has no e-mail address',
    text: 'Your exhibitors are found by your e-mail address. Add one to your account, then log in again.',
    action: 'switch',
  },
  email_unverified: {
    title: 'Your e-mail address is not confirmed',
    text: 'Confirm it with the login service, then log in again.',
    action: 'switch',
  },
};

/** For a callback that is opened again by the Back button. */
const ALREADY_LOGGED_IN: ProblemText = {
  title: 'You are already logged in',
  text: 'This login was completed before. You can go on, or log in as another person.',
  action: 'continue',
};

/** Texts by HTTP status, for exceptions of NestJS itself. */
const BY_STATUS: Readonly<Record<number, ProblemText>> = {
  400: INVALID,
  404: NOT_FOUND,
  413: { title: 'The request is too large', text: 'The form is larger than the server accepts.' },
};

/** Describes a caught error. */
export function describeProblem(thrown: unknown): Problem {
  const error = exhibitorErrorOf(thrown);
  if (error) {
    return { status: HTTP_STATUS_BY_CODE[error.code], ...textFor(error) };
  }
  const status = thrown instanceof HttpException ? thrown.getStatus() : 500;
  return { status, ...(BY_STATUS[status] ?? INTERNAL) };
}

/** The page of a failed login, for a `reason` of `LoginFailedError` or an error code. The name comes from the address. */
export function describeLoginProblem(name: unknown, isLoggedIn: boolean): Problem {
  if (name === 'state' && isLoggedIn) {
    return { status: 401, ...ALREADY_LOGGED_IN };
  }
  if (isUnavailable(name)) {
    return { status: HTTP_STATUS_BY_CODE[name], ...PROVIDER_UNAVAILABLE };
  }
  const known = Object.entries(BY_LOGIN_REASON).find(([reason]) => reason === name);
  return { status: 401, ...(known?.[1] ?? LOGIN_FAILED) };
}

const UNAVAILABLE_CODES = ['service_unavailable', 'rate_limited', 'deadline_exceeded'] as const;

function isUnavailable(name: unknown): name is (typeof UNAVAILABLE_CODES)[number] {
  return UNAVAILABLE_CODES.some((code) => code === name);
}

/** Returns the `ExhibitorError`. Services throw it directly; guards throw an `HttpException` with it as `cause`. */
export function exhibitorErrorOf(thrown: unknown): ExhibitorError | undefined {
  const candidate = thrown instanceof HttpException ? thrown.cause : thrown;
  return isExhibitorError(candidate) ? candidate : undefined;
}

function textFor(error: ExhibitorError): ProblemText {
  if (error.code !== 'login_failed') {
    return BY_CODE[error.code];
  }
  const text = error instanceof LoginFailedError ? BY_LOGIN_REASON[error.reason] : undefined;
  return text ?? LOGIN_FAILED;
}
