import { inspect } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import {
  ConfigurationError,
  ExhibitorError,
  HTTP_STATUS_BY_CODE,
  LoginFailedError,
  PaginationDriftError,
  TokenRejectedError,
} from '../../lib/index.js';

describe('an ExhibitorError', () => {
  it('shows its code and the known details of the failure only', () => {
    const error = new ExhibitorError('rate_limited', 'wait', {
      tenant: 'acme',
      status: 429,
      retryAfterMs: 1_500,
    });
    expect(JSON.parse(JSON.stringify(error))).toEqual({
      name: 'ExhibitorError',
      message: 'wait',
      code: 'rate_limited',
      tenant: 'acme',
      status: 429,
      retryAfterMs: 1_500,
    });
    expect(inspect(error)).toContain("code: 'rate_limited'");
    expect('attempts' in error).toBe(false);
  });

  it('has the value thrown by a host function as its cause, unchanged', () => {
    const cause = new Error('vault is sealed');
    expect(new ExhibitorError('token_unavailable', 'no secret', { cause }).cause).toBe(cause);
  });

  it('has subclasses with the details of their code', () => {
    expect(new LoginFailedError('nonce', 'x')).toMatchObject({ code: 'login_failed', reason: 'nonce' });
    expect(new TokenRejectedError('invalid_client', 'no', {})).toMatchObject({
      code: 'token_rejected',
      oauthError: 'invalid_client',
      oauthErrorDescription: 'no',
    });
    expect(new ConfigurationError([{ path: 'tenant.baseUrl', expected: 'must be https' }]).message).toContain(
      'tenant.baseUrl: must be https',
    );
    const breach = { field: 'totalCount', expected: 3, seen: 4, page: 2 };
    expect(new PaginationDriftError(breach, 1)).toMatchObject({
      code: 'pagination_drift',
      breach,
      lastGoodPage: 1,
    });
  });

  it('has an HTTP status for every code', () => {
    expect(Object.values(HTTP_STATUS_BY_CODE).every((status) => status >= 400 && status < 600)).toBe(true);
  });
});
