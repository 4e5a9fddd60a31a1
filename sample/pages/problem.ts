import { HttpException } from '@nestjs/common';
import {
  HTTP_STATUS_BY_CODE,
  isExhibitorError,
  LoginFailedError,
  type ExhibitorError,
  type ExhibitorErrorCode,
  type LoginFailureReason,
} from 'nestjs-exhibitor';

/** What a person reads when something did not work. It says nothing of hosts, tokens or stacks. */
export interface Problem {
  status: number;
  title: string;
  text: string;
  /** Whether the same request may work in a moment. */
  again: boolean;
  /** Whether logging in helps. */
  login: boolean;
}

type Words = Pick<Problem, 'title' | 'text' | 'again' | 'login'>;

const say = (title: string, text: string, helps?: 'again' | 'login'): Words => ({
  title,
  text,
  again: helps === 'again',
  login: helps === 'login',
});

const NOBODY = say('Please log in', 'This page is for people we know.', 'login');
const NOT_FOUND = say(
  'There is nothing here',
  'The address may be mistyped, or the event is no longer listed.',
);
const MISTAKEN = say(
  'That request is not quite right',
  'Part of the address or of the form has a value we cannot use.',
);
const UNAVAILABLE = say(
  'The exhibitor service is not available',
  'It did not answer as it should. Nothing of yours is lost: please try again in a moment.',
  'again',
);
const UNUSABLE = say(
  'The exhibitor service gave an unexpected answer',
  'We could not use what it sent. Please try again; if this stays, tell the organiser.',
  'again',
);
const BROKEN = say('Something went wrong on our side', 'We have made a note of it. Please try again later.');

/** By `code` of the error; codes are stable, messages are not. */
const BY_CODE: Readonly<Record<Exclude<ExhibitorErrorCode, 'login_failed'>, Words>> = {
  unauthenticated: NOBODY,
  no_exhibitor: say(
    'No exhibitor for you at this event',
    'Your e-mail address is not a contact of any exhibitor here. Ask your exhibitor to add it, or log in as somebody else.',
  ),
  exhibitor_not_selected: say('Choose an exhibitor first', 'You belong to several exhibitors of this event.'),
  not_found: NOT_FOUND,
  unknown_tenant: NOT_FOUND,
  invalid_argument: MISTAKEN,
  event_required: MISTAKEN,
  rate_limited: say('A lot is going on right now', 'The exhibitor service asks for a short pause.', 'again'),
  service_unavailable: UNAVAILABLE,
  token_unavailable: UNAVAILABLE,
  deadline_exceeded: say(
    'That took too long',
    'The exhibitor service was too slow. Please try again.',
    'again',
  ),
  aborted: say('That was interrupted', 'Please try again.', 'again'),
  pagination_drift: say('The list changed while we read it', 'Start over to see it as it is now.', 'again'),
  malformed_response: UNUSABLE,
  access_denied: UNUSABLE,
  request_rejected: UNUSABLE,
  token_rejected: UNUSABLE,
  tenant_required: BROKEN,
  configuration_invalid: BROKEN,
};

/** By `reason` of a login that was refused. */
const BY_REASON: Readonly<Partial<Record<LoginFailureReason, Words>>> = {
  denied: say('The login was cancelled', 'You can log in whenever you like.', 'login'),
  state: say('This login is over', 'It has expired, or was finished before. Please start it again.', 'login'),
  email_missing: say(
    'Your account has no e-mail address',
    'We find your exhibitors by it: please add one.',
    'login',
  ),
  email_unverified: say(
    'Your e-mail address is not confirmed',
    'Confirm it with the login service, then log in again.',
    'login',
  ),
};
const LOGIN_REFUSED = say(
  'The login did not work',
  'We could not be sure it was you. Please try again.',
  'login',
);

/** What Nest itself refuses, before any of our code has a say. */
const BY_STATUS: Readonly<Record<number, Words>> = {
  400: MISTAKEN,
  404: NOT_FOUND,
  413: say('That is too much', 'The form sent more than we accept.'),
};

/** The words for anything that was thrown. */
export function describeProblem(thrown: unknown): Problem {
  const error = exhibitorErrorOf(thrown);
  if (error) {
    return { status: HTTP_STATUS_BY_CODE[error.code], ...wordsFor(error) };
  }
  const status = thrown instanceof HttpException ? thrown.getStatus() : 500;
  return { status, ...(BY_STATUS[status] ?? BROKEN) };
}

/** Guards throw Nest's exceptions with the cause inside, services the error itself. */
export function exhibitorErrorOf(thrown: unknown): ExhibitorError | undefined {
  const candidate = thrown instanceof HttpException ? thrown.cause : thrown;
  return isExhibitorError(candidate) ? candidate : undefined;
}

function wordsFor(error: ExhibitorError): Words {
  if (error.code !== 'login_failed') {
    return BY_CODE[error.code];
  }
  return (error instanceof LoginFailedError && BY_REASON[error.reason]) || LOGIN_REFUSED;
}
