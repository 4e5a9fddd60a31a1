import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { beforeAll, describe, expect, it, jest } from '@jest/globals';
import { ConsoleLogger, Controller, Get } from '@nestjs/common';
import {
  ConfigurationError,
  ExhibitorError,
  isExhibitorError,
  type LoginFailedError,
} from '../../lib/index.js';
import { addSecret, leaksOf } from '../setup/leaks.js';
import { assertNoSecretShown } from '../setup/no-secrets.js';
import { COOKIE_SECRET, startHost } from '../support/host.js';
import { useHost } from '../support/lifetimes.js';
import { tenantAt } from '../support/tenant-at.js';

describe('an ExhibitorError', () => {
  it('shows its code and the known details of the failure only', () => {
    const details = { tenant: 'acme', status: 429, retryAfterMs: 1_500 };
    const error = new ExhibitorError('rate_limited', 'wait', details);
    const shown = { name: 'ExhibitorError', message: 'wait', code: 'rate_limited', ...details };
    expect(JSON.parse(JSON.stringify(error))).toEqual(shown);
    expect(inspect(error)).toContain("code: 'rate_limited'");
    expect('attempts' in error).toBe(false);
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
});

describe('the check of every error of a test run', () => {
  const rejected = (message: string, details: object = {}) =>
    new ExhibitorError('token_rejected', message, details);

  it.each<[string, (secret: string) => unknown]>([
    ['message', (secret) => rejected(`refused: ${secret}`)],
    ['details', (secret) => rejected('refused', { tenant: encodeURIComponent(secret) })],
    ['cause', (secret) => rejected('refused', { cause: new Error(secret) })],
    ['message, in base64', (secret) => rejected(`refused: ${Buffer.from(secret).toString('base64')}`)],
    ['members', (secret) => Object.assign(rejected('refused'), { request: { deep: [{ secret }] } })],
  ])('finds a secret in the %s of an error', (_where, plant) => {
    addSecret('planted client secret');
    plant('planted client secret');
    expect(assertNoSecretShown).toThrow('shows a secret');
    plant('the service asks to wait');
    expect(assertNoSecretShown).not.toThrow();
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
});

/** A process may hold two copies of the package, such as a linked one. Here the second copy is one of `lib/errors`. */
describe('errors of another copy of the package', () => {
  let theirs: { ExhibitorError: typeof ExhibitorError; LoginFailedError: typeof LoginFailedError };
  beforeAll(async () => {
    const folder = mkdtempSync(join(tmpdir(), 'exhibitor-errors-'));
    cpSync(join(import.meta.dirname, '../../lib/errors'), folder, { recursive: true });
    const copies = ['exhibitor', 'login-failed'].map((name) => import(join(folder, `${name}.error.ts`)));
    theirs = Object.assign({}, ...(await Promise.all(copies)));
    rmSync(folder, { recursive: true });
  });

  it('are known by isExhibitorError, also where a class of the host extends one', () => {
    class BoothError extends theirs.ExhibitorError {}
    for (const error of [
      new theirs.ExhibitorError('aborted', 'x'),
      new theirs.LoginFailedError('nonce', 'x'),
      new BoothError('aborted', 'x'),
    ]) {
      expect([error instanceof ExhibitorError, isExhibitorError(error)]).toEqual([false, true]);
    }
  });

  it('are no other values', () => {
    const coded = Object.assign(new Error('x'), { code: 'rate_limited' });
    expect([coded, undefined, null, 'x', {}].filter(isExhibitorError)).toEqual([]);
  });

  @Controller()
  class Throwing {
    @Get('limited') limited(): never {
      throw new theirs.ExhibitorError('rate_limited', 'x', { retryAfterMs: 2_000 });
    }
    @Get('refused') refused(): never {
      throw new theirs.LoginFailedError('nonce', 'x');
    }
  }
  const options = () => ({ tenant: tenantAt(), secrets: [COOKIE_SECRET] });
  const host = useHost(() => startHost({ controllers: [Throwing], options }));

  it('are answered by the filter as our own', async () => {
    const limited = await fetch(`${host.url}/limited`);
    expect([limited.status, limited.headers.get('retry-after')]).toEqual([503, '2']);
    const refused = await fetch(`${host.url}/refused`);
    expect(await refused.json()).toMatchObject({ statusCode: 401, code: 'login_failed', reason: 'nonce' });
  });
});
