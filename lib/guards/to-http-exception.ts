import { STATUS_CODES } from 'node:http';
import { HttpException } from '@nestjs/common';
import { HTTP_STATUS_BY_CODE } from '../errors/error-codes.js';
import type { ExhibitorError } from '../errors/exhibitor.error.js';
import { LoginFailedError } from '../errors/login-failed.error.js';

/** The reply for an error: `{ statusCode, message, error, code, reason? }`, with the error as `cause`. */
export function toHttpException(error: ExhibitorError): HttpException {
  const status = HTTP_STATUS_BY_CODE[error.code];
  const body = {
    statusCode: status,
    message: error.code === 'configuration_invalid' ? 'The server is not configured for this' : error.message,
    // 499 is a status of nginx and has no name in any RFC.
    error: STATUS_CODES[status] ?? 'Client Closed Request',
    code: error.code,
    ...(error instanceof LoginFailedError ? { reason: error.reason } : {}),
  };
  return new HttpException(body, status, { cause: error });
}

/** `Retry-After` in whole seconds, for replies with status 503; `undefined` for others. */
export function retryAfterOf(error: ExhibitorError): string | undefined {
  if (error.retryAfterMs === undefined || HTTP_STATUS_BY_CODE[error.code] !== 503) {
    return undefined;
  }
  return String(Math.ceil(error.retryAfterMs / 1000));
}
