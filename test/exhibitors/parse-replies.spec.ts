import { describe, expect, it } from '@jest/globals';
import type { StandardSchemaV1 } from '@standard-schema/spec';
import { z } from 'zod';
import { parsePage, parseRecords } from '../../lib/exhibitors/parse-replies.js';
import { freezeJson } from '../../lib/model/json-values.js';
import { unhandledIn } from '../support/messages.js';
import { pause } from '../support/wait.js';

describe('the paginated collection wrapper', () => {
  const counts = { currentPage: 1, totalCount: 2, totalPages: 1, itemsPerPage: 50 };
  const metadata = { ...counts, hasPreviousPage: false, hasNextPage: false };

  it('is returned unchanged, with members that the service adds; it may lack the two booleans', () => {
    const body = { paginationMetadata: { ...metadata, cursor: 'x' }, data: [{ id: 'a' }], took: 3 };
    expect(parsePage(body, 'acme')).toBe(body);
    expect(parsePage({ paginationMetadata: counts, data: [] }, 'acme').paginationMetadata).toEqual(counts);
  });

  const noCount = (name: string) => `paginationMetadata.${name} is not a whole number of 0 or more`;
  const withMetadata = (changed: object) => ({ paginationMetadata: { ...metadata, ...changed }, data: [] });

  it.each<[unknown, string]>([
    [undefined, 'the reply is not an object'],
    [null, 'the reply is not an object'],
    ['text', 'the reply is not an object'],
    [[], 'the reply is not an object'],
    [{ data: [] }, 'paginationMetadata is not an object'],
    [{ paginationMetadata: [], data: [] }, 'paginationMetadata is not an object'],
    [{ paginationMetadata: metadata }, 'data is not an array'],
    [{ paginationMetadata: metadata, data: {} }, 'data is not an array'],
    [withMetadata({ totalCount: '2' }), noCount('totalCount')],
    [withMetadata({ totalPages: -1 }), noCount('totalPages')],
    [withMetadata({ currentPage: 1.5 }), noCount('currentPage')],
    [withMetadata({ itemsPerPage: 1e300 }), noCount('itemsPerPage')],
    [withMetadata({ hasNextPage: 'yes' }), 'paginationMetadata.hasNextPage is not true or false'],
  ])('is refused when it is %j', (body, problem) => {
    const message = `not a page of exhibitors: ${problem}`;
    const failure = { code: 'malformed_response', tenant: 'acme', message };
    expect(() => parsePage(body, 'acme')).toThrow(expect.objectContaining(failure));
  });
});

describe('records', () => {
  const parse = async (rows: unknown[], schema?: StandardSchemaV1) =>
    parseRecords(rows, schema, { tenant: 'acme', path: 'data' });
  const schemaOf = (validate: StandardSchemaV1['~standard']['validate']): StandardSchemaV1 => ({
    '~standard': { version: 1, vendor: 'test', validate },
  });
  const malformed = (message: string) => ({ code: 'malformed_response', message });

  it('are returned unchanged without a schema', async () => {
    const rows = [{ id: 1, booth: { hall: 'A' } }];
    expect(await parse(rows)).toBe(rows);
  });

  it.each([[null], ['text'], [7], [[]]])('are objects and not %j', async (row) => {
    await expect(parse([{}, row])).rejects.toMatchObject(malformed('data.1 is not an object'));
  });

  it('may be checked by an asynchronous schema', async () => {
    const schema = z.object({ id: z.string() }).refine(async ({ id }) => id !== 'bad');
    const asynchronous = schemaOf(async (value) => schema['~standard'].validate(value));
    await expect(parse([{ id: 'a' }], asynchronous)).resolves.toEqual([{ id: 'a' }]);
    const refused = parse([{ id: 'a' }, { id: 'bad' }], asynchronous);
    await expect(refused).rejects.toMatchObject(malformed('data.1 does not fit exhibitorSchema'));
  });

  const numbers = z.record(z.string(), z.number());
  const byParts = schemaOf(() => ({ issues: [{ message: 'no', path: ['a', { key: 'b' }] }] }));
  it.each<[string, StandardSchemaV1, object, path: string]>([
    [
      'by the path of the first issue',
      z.object({ a: z.object({ b: z.number() }) }),
      { a: { b: 'x' } },
      'a.b',
    ],
    ['by the keys of the parts of a path', byParts, { a: { b: 1 } }, 'a.b'],
    [
      'without a key that is a value itself',
      z.object({ a: numbers }),
      { a: { 'sam@example.com': 'x' } },
      'a.*',
    ],
  ])('that the schema refuses are reported %s, without their values', async (_how, schema, row, path) => {
    const message = `data.0.${path} does not fit exhibitorSchema`;
    await expect(parse([row], schema)).rejects.toMatchObject(malformed(message));
  });

  const ofHost = new RangeError('of the host');
  it.each<[string, () => Promise<never>]>([
    [
      'at once',
      () => {
        throw ofHost;
      },
    ],
    ['later', () => Promise.reject(ofHost)],
  ])('fail with the thrown value as the cause where the schema throws %s', async (_when, validate) => {
    const failure = { ...malformed('data.0 made exhibitorSchema throw'), cause: ofHost };
    await expect(parse([{}], schemaOf(validate))).rejects.toMatchObject(failure);
  });

  it('leave no unhandled rejection where one is refused before another is checked', async () => {
    const schema = schemaOf((row) =>
      row === 1 ? Promise.reject(new Error('late')) : { issues: [{ message: 'no' }] },
    );
    const unhandled = await unhandledIn(async () => {
      await expect(parse([1, 2], schema)).rejects.toThrow('data.1 does not fit exhibitorSchema');
      await pause(20);
    });
    expect(unhandled).toEqual([]);
  });

  it('that several requests read are frozen to the last plain member, also where they refer to themselves', () => {
    const record = { booth: { halls: ['A'] }, since: new Date(0), self: {} };
    record.self = record;
    freezeJson([record]);
    expect([Object.isFrozen(record.booth.halls), Object.isFrozen(record.since)]).toEqual([true, false]);
  });
});
