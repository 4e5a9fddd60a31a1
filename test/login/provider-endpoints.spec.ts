import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { TokenService } from '../../lib/index.js';
import { COOKIE_SECRET, startHost, type Host } from '../support/host.js';
import { ScriptedProvider } from '../support/provider.js';
import { Visitor } from '../support/visitor.js';
import { expectAccepted } from './journey.js';

const OTHER_PATHS = {
  '/oauth2/authorize': '/connect/authorize',
  '/oauth2/token': '/connect/token',
  '/oauth2/me': '/connect/userinfo',
};

let provider: ScriptedProvider;
beforeAll(async () => {
  provider = await ScriptedProvider.start();
  provider.otherPaths = OTHER_PATHS;
});
beforeEach(() => {
  provider.seen.length = 0;
});
afterEach(() => {
  provider.script = {};
});
afterAll(() => provider?.stop());

describe.each(['express', 'fastify'] as const)('a provider with other paths, on %s', (kind) => {
  let host: Host;
  beforeAll(async () => {
    host = await startHost({
      kind,
      options: (callback) => ({
        tenant: {
          ...provider.tenantOptions(callback),
          endpoints: {
            authorize: `${provider.url}/oauth2/authorize?realm=fair%20one&realm=b`,
            token: `${provider.url}/oauth2/token?realm=fair`,
            userinfo: `${provider.url}/oauth2/me`,
          },
        },
        secrets: [COOKIE_SECRET],
      }),
    });
  });
  afterAll(() => host?.close());

  it('gets every request of a login there, with the query of its endpoint', async () => {
    provider.script = { email: 'userinfo' };
    await expectAccepted(host);
    expect(provider.seen.map(({ path }) => path)).toEqual(Object.keys(OTHER_PATHS));
    const { query } = provider.last('/oauth2/authorize');
    expect(query.getAll('realm')).toEqual(['fair one', 'b']);
    expect(query.get('client_id')).toBe('hostile-web');
    expect(provider.last('/oauth2/token').query.toString()).toBe('realm=fair');
  });

  it('gets the requests of the API client at the same token endpoint', async () => {
    // This provider has no API client: only where the request arrives is of interest.
    await expect(host.app.get(TokenService).getToken()).rejects.toMatchObject({ code: 'token_rejected' });
    expect(provider.seen.map(({ path }) => path)).toEqual(['/oauth2/token']);
    expect(provider.last('/oauth2/token').query.toString()).toBe('realm=fair');
  });

  it('shows the browser no other parameter of the login than before', async () => {
    const { location } = await new Visitor().visit(`${host.url}/auth/login`);
    const names = [...new URL(location ?? '').searchParams.keys()].filter((name) => name !== 'realm');
    expect(names.toSorted()).toEqual([
      'client_id',
      'code_challenge',
      'code_challenge_method',
      'nonce',
      'redirect_uri',
      'response_type',
      'scope',
      'state',
    ]);
  });
});
