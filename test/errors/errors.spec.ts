import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { ConsoleLogger, Controller, Get } from '@nestjs/common';
import {
  ConfigurationError,
  ExhibitorError,
  HTTP_STATUS_BY_CODE,
  isExhibitorError,
  LoginFailedError,
  PaginationDriftError,
  TokenRejectedError,
} from '../../lib/index.js';
import { addSecret, leaksOf } from '../setup/leaks.js';
import { assertNoSecretShown } from '../setup/no-secrets.js';
import { COOKIE_SECRET, startHost, type Host } from '../support/host.js';
import { tenantAt } from '../support/tenant-at.js';

const BREACH = { field: 'totalCount', expected: 3, seen: 4, page: 2 };

describe('an ExhibitorError', () => {
  it('shows its code and the known details of the failure only', () => {
    const details = { tenant: 'acme', status: 429, retryAfterMs: 1_500 };
    const error = new ExhibitorError('rate_limited', 'wait', details);
    const shown = { name: 'ExhibitorError', message: 'wait', code: 'rate_limited', ...details };
    expect(JSON.parse(JSON.stringify(error))).toEqual(shown);
    expect(inspect(error)).toContain("code: 'rate_limited'");
    expect('attempts' in error).toBe(false);
  });

  it('has subclasses with the details of their code, and the value thrown by a host function as its cause', () => {
    const cause = new Error('vault is sealed');
    expect(new ExhibitorError('token_unavailable', 'no secret', { cause }).cause).toBe(cause);
    expect(new LoginFailedError('nonce', 'x')).toMatchObject({ code: 'login_failed', reason: 'nonce' });
    const refusal = { oauthError: 'invalid_client', oauthErrorDescription: 'no' };
    expect(new TokenRejectedError('invalid_client', 'no', {})).toMatchObject({
      code: 'token_rejected',
      ...refusal,
    });
    const drift = { code: 'pagination_drift', breach: BREACH, lastGoodPage: 1 };
    expect(new PaginationDriftError(BREACH, 1)).toMatchObject(drift);
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

describe('the check of every error of a test run', () => {
  it('finds a secret in every place of an error', () => {
    addSecret('planted client secret');
    const rejected = (message: string, details: object = {}) =>
      new ExhibitorError('token_rejected', message, details);
    const planted: ((secret: string) => unknown)[] = [
      (secret) => rejected(`refused: ${secret}`),
      (secret) => rejected('refused', { tenant: encodeURIComponent(secret) }),
      (secret) => rejected('refused', { cause: new Error(secret) }),
      (secret) => rejected(`refused: ${Buffer.from(secret).toString('base64')}`),
      (secret) => Object.assign(rejected('refused'), { request: { deep: [{ secret }] } }),
    ];
    for (const plant of planted) {
      plant('planted client secret');
      expect(assertNoSecretShown).toThrow('shows a secret');
      plant('nothing');
      expect(assertNoSecretShown).not.toThrow();
    }
  });

  it.each([
    ['an e-mail address', 'for sam.several@example.com'],
    ['an e-mail address', 'at /contactEmail/zo%C3%AB%2Bfair%40example.com'],
    ['an e-mail address', Buffer.from('someone.else@example.com').toString('base64')],
    ['a token', 'eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl'],
    ['a bearer token', 'Authorization: Bearer abcdefgh12345678'],
    ['basic credentials', 'Authorization: Basic YWxhZGRpbjpzZXNhbWU='],
  ])('recognizes %s by its format', (leak, text) => {
    expect(leaksOf(new Error(text))).toContain(leak);
  });

  it('finds nothing in an error without secrets', () => {
    const details = { tenant: 'acme', retryAfterMs: 5 };
    expect(leaksOf(new ExhibitorError('rate_limited', 'the service asks to wait', details))).toEqual([]);
  });
});

/** A process may hold two copies of the package, such as a linked one. Here the second copy is one of `lib/errors`. */
const ours = {
  ExhibitorError,
  LoginFailedError,
  TokenRejectedError,
  PaginationDriftError,
  ConfigurationError,
};
type Errors = typeof ours;

const folder = mkdtempSync(join(tmpdir(), 'exhibitor-errors-'));
let theirs: Errors;
beforeAll(async () => {
  cpSync(join(import.meta.dirname, '../../lib/errors'), folder, { recursive: true });
  const copies: object[] = [];
  for (const name of ['exhibitor', 'login-failed', 'token-rejected', 'pagination-drift', 'configuration']) {
    copies.push((await import(join(folder, `${name}.error.ts`))) as object);
  }
  theirs = Object.assign({}, ...copies) as Errors;
});
afterAll(() => rmSync(folder, { recursive: true }));

const CREATE: Record<keyof Errors, (from: Errors) => Error> = {
  ExhibitorError: (from) => new from.ExhibitorError('rate_limited', 'x', { retryAfterMs: 2_000 }),
  LoginFailedError: (from) => new from.LoginFailedError('nonce', 'x'),
  TokenRejectedError: (from) => new from.TokenRejectedError('invalid_client', undefined, {}),
  PaginationDriftError: (from) => new from.PaginationDriftError(BREACH, 1),
  ConfigurationError: (from) => new from.ConfigurationError([]),
};
const NAMES = Object.keys(CREATE) as (keyof Errors)[];

describe('errors of another copy of the package', () => {
  it.each(NAMES)('are known by isExhibitorError, such as %s', (name) => {
    expect(theirs[name]).not.toBe(ours[name]);
    expect(isExhibitorError(CREATE[name](theirs))).toBe(true);
  });

  it('are known where a class of the host extends ours', () => {
    class BoothError extends theirs.ExhibitorError {}
    expect(isExhibitorError(new BoothError('aborted', 'x'))).toBe(true);
  });

  it.each([
    new Error('x'),
    Object.assign(new Error('x'), { code: 'rate_limited' }),
    undefined,
    null,
    'x',
    {},
  ])('are no other values: %p', (value) => {
    expect(isExhibitorError(value)).toBe(false);
  });
});

describe('the filter', () => {
  @Controller()
  class Throwing {
    @Get('limited') limited(): never {
      throw CREATE.ExhibitorError(theirs);
    }
    @Get('refused') refused(): never {
      throw CREATE.LoginFailedError(theirs);
    }
  }

  let host: Host;
  beforeAll(async () => {
    const options = () => ({ tenant: tenantAt(), secrets: [COOKIE_SECRET] });
    host = await startHost({ controllers: [Throwing], options });
  });
  afterAll(() => host?.close());

  it('answers errors of another copy as our own', async () => {
    const limited = await fetch(`${host.url}/limited`);
    expect([limited.status, limited.headers.get('retry-after')]).toEqual([503, '2']);
    const refused = await fetch(`${host.url}/refused`);
    expect(await refused.json()).toMatchObject({ statusCode: 401, code: 'login_failed', reason: 'nonce' });
  });
});
