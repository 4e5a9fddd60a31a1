import type { LoggerService } from '@nestjs/common';
import { throwError, type Observable } from 'rxjs';
import { ExhibitorError, LoginFailedError } from '../../lib/index.js';

/** A failure of a service, by the name a client sends. */
export function failureNamed(name: string): Error {
  switch (name) {
    case 'login_failed':
      return new LoginFailedError('nonce', 'the login is refused: nonce');
    case 'configuration_invalid':
      return new ExhibitorError('configuration_invalid', 'tenants.acme.clientSecret is wrong');
    case 'rate_limited':
      return new ExhibitorError('rate_limited', 'the service limits our requests', { retryAfterMs: 1_200 });
    default:
      return new Error(`the host's own: ${name}`);
  }
}

/** The same failure by way of an Observable, as the services of the module answer. */
export function failingWith(name: string): Observable<never> {
  return throwError(() => failureNamed(name));
}

/** What a client is told for each failure. */
export const TOLD: readonly [name: string, told: object][] = [
  ['rate_limited', { status: 'error', message: 'the service limits our requests', code: 'rate_limited' }],
  [
    'login_failed',
    { status: 'error', message: 'the login is refused: nonce', code: 'login_failed', reason: 'nonce' },
  ],
  [
    'configuration_invalid',
    { status: 'error', message: 'The server is not configured for this', code: 'configuration_invalid' },
  ],
];

/** Keeps the error messages of Nest. */
export class ErrorLog implements LoggerService {
  readonly messages: string[] = [];

  log(): void {}

  warn(): void {}

  error(message: unknown): void {
    this.messages.push(String(message));
  }
}
