import { describe, expect, it } from '@jest/globals';
import type { StandardSchemaV1 } from '@standard-schema/spec';
import { z } from 'zod';
import { parsePage, parseRecords } from '../../lib/exhibitors/parse-replies.js';
import { freezeJson } from '../../lib/model/json-values.js';
import { pause } from '../support/wait.js';

const metadata = {
  currentPage: 1,
  totalCount: 2,
  totalPages: 1,
  hasPreviousPage: false,
  hasNextPage: false,
  itemsPerPage: 50,
};

describe('the paginated collection wrapper', () => {
  it('is returned unchanged, with members that the service adds', () => {
    const body = { paginationMetadata: { ...metadata, cursor: 'x' }, data: [{ id: 'a' }], took: 3 };
    expect(parsePage(body, 'acme')).toBe(body);
  });

  it('may lack the two booleans', () => {
    const { hasNextPage: _next, hasPreviousPage: _previous, ...rest } = metadata;
    expect(parsePage({ paginationMetadata: rest, data: [] }, 'acme').paginationMetadata).toEqual(rest);
  });

  it.each<[unknown, string]>([
    [undefined, 'the reply is not an object'],
    [null, 'the reply is not an object'],
    ['text', 'the reply is not an object'],
    [[], 'the reply is not an object'],
    [{ data: [] }, 'paginationMetadata is not an object'],
    [{ paginationMetadata: [], data: [] }, 'paginationMetadata is not an object'],
    [{ paginationMetadata: metadata }, 'data is not an array'],
    [{ paginationMetadata: metadata, data: {} }, 'data is not an array'],
    [
      { paginationMetadata: { ...metadata, totalCount: '2' }, data: [] },
      'paginationMetadata.totalCount is not a whole number of 0 or more',
    ],
    [
      { paginationMetadata: { ...metadata, totalPages: -1 }, data: [] },
      'paginationMetadata.totalPages is not a whole number of 0 or more',
    ],
    [
      { paginationMetadata: { ...metadata, currentPage: 1.5 }, data: [] },
      'paginationMetadata.currentPage is not a whole number of 0 or more',
    ],
    [
      { paginationMetadata: { ...metadata, itemsPerPage: 1e300 }, data: [] },
      'paginationMetadata.itemsPerPage is not a whole number of 0 or more',
    ],
    [
      { paginationMetadata: { ...metadata, hasNextPage: 'yes' }, data: [] },
      'paginationMetadata.hasNextPage is not true or false',
    ],
  ])('is refused when it is %j', (body, problem) => {
    expect(() => parsePage(body, 'acme')).toThrow(
      expect.objectContaining({
        code: 'malformed_response',
        tenant: 'acme',
        message: `not a page of exhibitors: ${problem}`,
      }),
    );
  });
});

describe('records', () => {
  const origin = { tenant: 'acme', path: 'data' };

  it('are returned unchanged without a schema', () => {
    const rows = [{ id: 1, booth: { hall: 'A' } }];
    expect(parseRecords(rows, undefined, origin)).toBe(rows);
  });

  it.each([[null], ['text'], [7], [[]]])('are objects and not %j', (row) => {
    expect(() => parseRecords([{}, row], undefined, origin)).toThrow(
      expect.objectContaining({ code: 'malformed_response', message: 'data.1 is not an object' }),
    );
  });

  it('may be checked by an asynchronous schema', async () => {
    const schema = z.object({ id: z.string() }).refine(async ({ id }) => id !== 'bad');
    const asynchronous: StandardSchemaV1 = {
      '~standard': {
        version: 1,
        vendor: 'test',
        validate: async (value) => schema['~standard'].validate(value),
      },
    };
    await expect(parseRecords([{ id: 'a' }], asynchronous, origin)).resolves.toEqual([{ id: 'a' }]);
    await expect(parseRecords([{ id: 'a' }, { id: 'bad' }], asynchronous, origin)).rejects.toMatchObject({
      code: 'malformed_response',
      message: 'data.1 does not fit exhibitorSchema',
    });
  });

  it('that the schema refuses are reported by the path of the first issue, without their values', () => {
    const schema = z.object({ booth: z.object({ hall: z.number() }) });
    expect(() => parseRecords([{ booth: { hall: 'sam@example.com' } }], schema, origin)).toThrow(
      expect.objectContaining({ message: 'data.0.booth.hall does not fit exhibitorSchema' }),
    );
  });

  it('do not show a key that is a value itself', () => {
    const schema = z.object({ contacts: z.record(z.string(), z.number()) });
    expect(() => parseRecords([{ contacts: { 'sam@example.com': 'x' } }], schema, origin)).toThrow(
      expect.objectContaining({ message: 'data.0.contacts.* does not fit exhibitorSchema' }),
    );
  });

  it.each([
    [
      'at once',
      () => {
        throw new RangeError('of the host');
      },
    ],
    ['later', () => Promise.reject(new RangeError('of the host'))],
  ])('fail with the thrown value as the cause where the schema throws %s', async (_when, validate) => {
    const schema: StandardSchemaV1 = { '~standard': { version: 1, vendor: 'test', validate } };
    await expect(async () => parseRecords([{}], schema, origin)).rejects.toMatchObject({
      code: 'malformed_response',
      message: 'data.0 made exhibitorSchema throw',
      cause: { name: 'RangeError', message: 'of the host' },
    });
  });

  it('leave no unhandled rejection where one is refused before another is checked', async () => {
    const validate = (row: unknown) =>
      row === 1 ? Promise.reject(new Error('late')) : { issues: [{ message: 'no' }] };
    const schema: StandardSchemaV1 = { '~standard': { version: 1, vendor: 'test', validate } };
    const unhandled: unknown[] = [];
    const collect = (reason: unknown): void => void unhandled.push(reason);
    process.on('unhandledRejection', collect);
    expect(() => parseRecords([1, 2], schema, origin)).toThrow('data.1 does not fit exhibitorSchema');
    await pause(20);
    process.off('unhandledRejection', collect);
    expect(unhandled).toEqual([]);
  });
});

describe('records that several requests read', () => {
  it('are frozen to the last plain member, also where they refer to themselves', () => {
    const record = { booth: { halls: ['A'] }, since: new Date(0), self: {} };
    record.self = record;
    freezeJson([record]);
    expect(Object.isFrozen(record.booth.halls)).toBe(true);
    expect(Object.isFrozen(record.since)).toBe(false);
  });
});
