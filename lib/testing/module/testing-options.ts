import type { Exhibitor, ExhibitorModuleOptions } from '../../index.js';
import { TESTING_CLIENT, TESTING_ISSUER } from './testing-backend.js';
import { TestingDispatcher } from './testing-dispatcher.js';
import type { TestingRecords } from './testing-records.js';

/** Options of a module whose requests are answered in memory. Every key is a tenant. */
export function testingOptions(records: TestingRecords<Exhibitor>): ExhibitorModuleOptions {
  const dispatcher = new TestingDispatcher(records);
  return {
    tenants: {
      find: (key) => ({
        tenantId: `tenant-${encodeURIComponent(key)}`,
        baseUrl: 'https://service.test',
        authUrl: TESTING_ISSUER,
        clientId: TESTING_CLIENT,
        clientSecret: 'nothing is sent',
        login: {
          clientId: TESTING_CLIENT,
          redirectUri: 'https://host.test/auth/callback',
          issuer: TESTING_ISSUER,
          keys: `${TESTING_ISSUER}/keys`,
        },
      }),
    },
    resolveTenant: ({ params }) => params?.['tenant'],
    secrets: ['seals the cookies of tests, which hold nothing'],
    lookupCache: false,
    http: { dispatcher: () => dispatcher },
    exhibitorSchema: {
      '~standard': {
        version: 1,
        vendor: 'nestjs-exhibitor/testing',
        validate: (row) => ({ value: parseRow(row, records) }),
      },
    },
    exhibitorId: (exhibitor) => records.idOf(exhibitor) ?? '',
  };
}

/** The record that was sent as its number. */
function parseRow(row: unknown, records: TestingRecords<Exhibitor>): Exhibitor {
  const number = typeof row === 'object' && row !== null && 'number' in row ? Number(row.number) : -1;
  return copy(records.at(number)) as Exhibitor;
}

/** Plain objects and arrays are copied, since each call answers new ones and a lookup freezes its own. */
function copy(value: unknown): unknown {
  if (Array.isArray(value)) {
    return value.map(copy);
  }
  if (typeof value !== 'object' || value === null || Object.getPrototypeOf(value) !== Object.prototype) {
    return value;
  }
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, copy(inner)]));
}
