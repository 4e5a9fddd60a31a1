/** What a page tells a person: words that are known here, nothing of the provider, the service or the options. */
import { HTTP_STATUS_BY_CODE, type ExhibitorErrorCode } from '../errors/error-codes.js';
import type { LoginFailureReason } from '../errors/login-failed.error.js';

/** A form of a page, sent by POST. */
export interface PageForm {
  /** Address that the form is sent to. */
  action: string;
  /** Hidden fields, by name. */
  fields: Record<string, string>;
}

/**
 * A page of the routes of the module, for `render`. No text in it is escaped: use {@link escapeHtml}. Members without a value are
 * absent.
 */
export interface PageView {
  /** `failed`: a refusal, of a login too. `choose`: the question which exhibitor. */
  kind: 'failed' | 'choose';
  /** HTTP status of the reply. */
  status: number;
  /** Why a person was refused; of `choose`, `exhibitor_not_selected`. */
  code: ExhibitorErrorCode;
  /** With `login_failed`, where it is known. */
  reason?: LoginFailureReason;
  /** Heading: in English, and the same for the same `code`, `reason` and `status`. */
  title: string;
  /** A sentence below the heading, likewise. */
  text: string;
  /** Starts a login for this event, and leads back to this page; after a 400 it does not lead back. */
  loginUrl?: string;
  /** The same, and the provider asks who logs in. Offer it first. */
  accountUrl?: string;
  /** Logs out. It has no button: add one. */
  logout?: PageForm;
  /** A page of the host. */
  homeUrl: string;
  /** With `choose`: the exhibitors of the user. */
  exhibitors?: {
    /** Sent as the field `exhibitorId` of {@link form}. */
    id: string;
    /** What a person reads. */
    label: string;
  }[];
  /** With `choose`: keeps the choice. */
  form?: PageForm;
}

/** What a person is refused for. */
export interface Refused extends Pick<PageView, 'status' | 'code'> {
  /** With `login_failed`, where it is known. */
  reason?: LoginFailureReason | undefined;
}

type Words = readonly [title: string, text: string];

const AGAIN = 'Please try again in a moment.';
const MISSING: Words = ['Page not found', 'The address is not complete, or it is out of date.'];
const SILENT: Words = ['You are not logged in', 'The login needs an answer from you. Please log in again.'];
const DOWN: Words = ['Not available at the moment', AGAIN];
const OF_SERVICE: Words = [
  'The exhibitors cannot be shown',
  `The answer of the service is not usable. ${AGAIN}`,
];
const OF_HOST: Words = [
  'Something is wrong here',
  'It is a fault of this site, not yours. Please try again later.',
];

const FAILED: Words = ['The login failed', 'If it fails again, please tell the operator of this site.'];

const BY_REASON: Readonly<Record<LoginFailureReason, Words>> = {
  state: [
    'This login is over',
    'It was completed before, took too long or began in another browser. If this happens again, allow cookies for this site.',
  ],
  issuer: FAILED,
  subject: FAILED,
  audience: FAILED,
  issued: FAILED,
  expired: FAILED,
  algorithm: FAILED,
  signature: FAILED,
  nonce: FAILED,
  code_hash: FAILED,
  token_hash: FAILED,
  auth_time: ['Please log in again', 'Your last login was too long ago.'],
  denied: ['The login was cancelled', 'You can log in again, or use another account.'],
  login_required: SILENT,
  interaction_required: SILENT,
  consent_required: SILENT,
  account_selection_required: SILENT,
  provider: FAILED,
  email_missing: ['Your account has no e-mail address', 'This site needs one to find your exhibitors.'],
  email_unverified: [
    'Your e-mail address is not confirmed',
    'Confirm it where you have your account, then log in again.',
  ],
  not_authorized: ['This account has no access', 'Use another account, or ask the organiser for access.'],
  token_type: FAILED,
};

/** True for a text that is a reason. */
export function isReason(text: string): text is LoginFailureReason {
  return Object.hasOwn(BY_REASON, text);
}

const BY_CODE: Partial<Record<ExhibitorErrorCode, Words>> = {
  login_failed: FAILED,
  unauthenticated: [
    'You are not logged in',
    'Please log in to see this page. If you have just done so, allow cookies for this site.',
  ],
  invalid_argument: ['This does not work', 'The address or the form has a value that is not valid.'],
  event_required: ['Which event?', 'The address names no event. Please open the page from this site again.'],
  no_exhibitor: ['You have no exhibitor here', 'Your account belongs to no exhibitor of this event.'],
  // After a form. Who opens an address is led to the question instead.
  exhibitor_not_selected: [
    'Choose an exhibitor first',
    'You act for several exhibitors at this event. Go back, and load the page again to choose.',
  ],
  unknown_tenant: MISSING,
  not_found: MISSING,
};

const BY_STATUS: Readonly<Record<number, Words>> = {
  401: ['You are not logged in', 'Please log in to see this page.'],
  403: ['You have no access', 'Your account may not open this page.'],
  404: MISSING,
  502: OF_SERVICE,
  503: DOWN,
  504: DOWN,
};

/** Refusals that may not apply to another account. */
const OF_ACCOUNT: readonly string[] = [
  'no_exhibitor',
  'denied',
  'email_missing',
  'email_unverified',
  'not_authorized',
];

/** Whether another account may do what this one may not. */
export function isOfAccount({ code, reason }: Refused): boolean {
  return OF_ACCOUNT.includes(reason ?? code);
}

/** Heading and sentence of a refusal. What code of the host refused is told by its status. */
export function wordsFor({ status, code, reason }: Refused): Pick<PageView, 'title' | 'text'> {
  const ofCode = (reason && BY_REASON[reason]) ?? BY_CODE[code];
  const known = HTTP_STATUS_BY_CODE[code] === status ? ofCode : undefined;
  const fallback = status >= 500 ? OF_HOST : (BY_CODE.invalid_argument ?? OF_HOST);
  const [title, text] = known ?? BY_STATUS[status] ?? fallback;
  return { title, text };
}
