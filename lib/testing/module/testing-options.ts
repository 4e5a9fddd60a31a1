import type { Exhibitor, ExhibitorModuleOptions } from '../../index.js';
import { TESTING_CLIENT, TESTING_ISSUER } from './testing-backend.js';
import type { TestingRecords } from './testing-records.js';

/** Options of a module in which every key is a tenant. */
export function testingOptions(records: TestingRecords<Exhibitor>): ExhibitorModuleOptions {
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
    http: { dispatcher: answerNotFound },
    exhibitorId: (exhibitor) => records.idOf(exhibitor) ?? '',
  };
}

/** What a service that no test replaces requests, the keys of the provider, is not sent either. */
function answerNotFound({ MockAgent }: typeof import('undici')) {
  const agent = new MockAgent();
  agent.disableNetConnect();
  const any = () => true;
  agent.get(any).intercept({ path: any, method: any }).reply(404).persist();
  return agent;
}
