/** A process may hold two copies of the package, such as a linked one. Here the second copy is one of `lib/errors`. */
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Controller, Get } from '@nestjs/common';
import {
  ConfigurationError,
  ExhibitorError,
  isExhibitorError,
  LoginFailedError,
  PaginationDriftError,
  TokenRejectedError,
} from '../../lib/index.js';
import { startHost, type Host } from '../support/host.js';
import { ScriptedProvider } from '../support/provider.js';

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

const BREACH = { field: 'totalCount', expected: 3, seen: 4, page: 2 };
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

  let provider: ScriptedProvider;
  let host: Host;
  beforeAll(async () => {
    provider = await ScriptedProvider.start();
    host = await startHost({
      controllers: [Throwing],
      options: (callback) => ({
        tenant: provider.tenantOptions(callback),
        secrets: ['a secret of the tests, 32 characters long'],
      }),
    });
  });
  afterAll(async () => {
    await host?.close();
    await provider?.stop();
  });

  it('answers errors of another copy as our own', async () => {
    const limited = await fetch(`${host.url}/limited`);
    expect([limited.status, limited.headers.get('retry-after')]).toEqual([503, '2']);
    const refused = await fetch(`${host.url}/refused`);
    expect(await refused.json()).toMatchObject({ statusCode: 401, code: 'login_failed', reason: 'nonce' });
  });
});
