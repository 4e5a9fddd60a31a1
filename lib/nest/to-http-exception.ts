import { STATUS_CODES } from 'node:http';
import { HttpException } from '@nestjs/common';
import { HTTP_STATUS_BY_CODE } from '../errors/error-codes.js';
import type { ExhibitorError } from '../errors/exhibitor.error.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import type { HttpContext } from '../browser/http-context.js';
import { markRefusal } from './refusals.js';

/**
 * What a client may be told. Failures of the host, the service and the provider are told by the reason phrase: their words are for the
 * log.
 */
export function messageFor(error: ExhibitorError): string {
  const { code, message, isOfHost } = error;
  if (code === 'configuration_invalid' && isOfHost !== true) {
    return 'The server is not configured for this';
  }
  const status = statusOf(error);
  return status < 500 ? message : (STATUS_CODES[status] ?? code);
}

function statusOf({ code, isOfHost }: ExhibitorError): number {
  return isOfHost === true ? 500 : HTTP_STATUS_BY_CODE[code];
}

/**
 * The reply for an error: an `HttpException` that a function of the host threw, else `{ statusCode, message, error, code, reason? }`,
 * with the error as `cause`.
 *
 * @param http gets `Retry-After`, in seconds
 */
export function toHttpException(error: ExhibitorError, http?: HttpContext): HttpException {
  const { code, retryAfterMs, cause, isOfHost } = error;
  if (isOfHost === true && cause instanceof HttpException) {
    return markRefusal(cause);
  }
  const status = statusOf(error);
  if (status === 503 && retryAfterMs !== undefined) {
    http?.setHeader('Retry-After', String(Math.ceil(retryAfterMs / 1000)));
  }
  const body = {
    statusCode: status,
    message: messageFor(error),
    // 499 is a status of nginx and has no name in any RFC.
    error: STATUS_CODES[status] ?? 'Client Closed Request',
    code,
    ...(isExhibitorError(error) && error.code === 'login_failed' ? { reason: error.reason } : {}),
  };
  return markRefusal(new HttpException(body, status, { cause: error }));
}
