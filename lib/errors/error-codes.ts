const STATUSES = {
  configuration_invalid: 500,
  invalid_argument: 400,
  unknown_tenant: 404,
  tenant_required: 500,
  token_rejected: 502,
  token_unavailable: 503,
  access_denied: 502,
  request_rejected: 502,
  not_found: 404,
  rate_limited: 503,
  service_unavailable: 503,
  deadline_exceeded: 504,
  malformed_response: 502,
  pagination_drift: 502,
  aborted: 499,
  login_failed: 401,
  unauthenticated: 401,
  event_required: 400,
  no_exhibitor: 403,
  exhibitor_not_selected: 409,
};

/** Every `code` an {@link ExhibitorError} can have. Hosts switch on it, never on the message. */
export type ExhibitorErrorCode = keyof typeof STATUSES;

/** HTTP status of a host's reply by `code`, as used by the guards and the exception filter. */
export const HTTP_STATUS_BY_CODE: Readonly<Record<ExhibitorErrorCode, number>> = Object.freeze(STATUSES);

/** True for a text that is a code. */
export function isErrorCode(text: string): text is ExhibitorErrorCode {
  return Object.hasOwn(STATUSES, text);
}
