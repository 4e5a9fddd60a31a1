import { inspect } from 'node:util';
import { describe, expect, it, jest } from '@jest/globals';
import { ConsoleLogger } from '@nestjs/common';
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

  it('of the configuration is logged by Nest with each line once, without a stack', () => {
    const written: string[] = [];
    const write = jest
      .spyOn(process.stderr, 'write')
      .mockImplementation((text) => written.push(String(text)) > 0);
    const problems = ['tenantId', 'baseUrl'].map((name) => ({
      path: `tenant.${name}`,
      expected: 'is required',
    }));
    new ConsoleLogger('ExceptionHandler', { colors: false }).error(new ConfigurationError(problems));
    write.mockRestore();
    expect(written.join('').split('[ExceptionHandler] ')[1]).toBe(
      'ConfigurationError: nestjs-exhibitor is not configured correctly:\n' +
        '  tenant.tenantId: is required\n  tenant.baseUrl: is required\n',
    );
    const failed = new ConfigurationError(problems, 'acme', new TypeError('of the host'));
    expect(inspect(failed)).toMatch(/\[cause\]: TypeError: of the host\n +at /);
    expect(JSON.parse(JSON.stringify(failed))).toMatchObject({ problems, tenant: 'acme' });
  });

  it('has an HTTP status for every code', () => {
    expect(Object.values(HTTP_STATUS_BY_CODE).every((status) => status >= 400 && status < 600)).toBe(true);
  });
});
