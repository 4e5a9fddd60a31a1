import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import type { LoginOverrides } from '../support/provider.js';
import { COOKIE_SECRET, startHost } from '../support/host.js';
import { Visitor } from '../support/visitor.js';
import { identityOf } from './journey.js';
import { startSandbox } from '../support/sandbox.js';

let sandbox: ExhibitorSandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
  sandbox.signInAs('olga.one@example.com');
});
afterAll(() => sandbox?.stop());

/** Logs in at globex, whose secrets have reserved characters; returns the token request. */
async function tokenRequestOf(login: LoginOverrides, publicClient = false) {
  const host = await startHost({
    options: (redirectUri) => {
      const tenant = sandbox.tenantOptions('globex', { redirectUri, publicClient });
      return { tenant: { ...tenant, login: { ...tenant.login, ...login } }, secrets: [COOKIE_SECRET] };
    },
  });
  sandbox.clearRequests();
  const visitor = new Visitor();
  await visitor.follow(`${host.url}/auth/login`, (url) => url.href === `${host.url}/`);
  const identity = await identityOf(visitor, host);
  await host.close();
  expect(identity).toMatchObject({ subject: 'olga.one' });
  const request = sandbox.requests.find(({ path }) => path === '/connect/token');
  if (request === undefined) {
    throw new Error('the code was not redeemed');
  }
  return request;
}

describe('the client of a login authenticates at the certified provider', () => {
  it('in the body, with reserved characters', async () => {
    const { headers, body } = await tokenRequestOf({ clientAuth: 'post' });
    expect(headers.authorization).toBeUndefined();
    expect(body).toMatchObject({
      client_id: 'globex-web',
      client_secret: 'globex-web-secret-for+development/only&=%20:?',
    });
  });

  it('in the header, with id and secret form-encoded before they are joined', async () => {
    const { headers, body } = await tokenRequestOf({ clientAuth: 'basic' });
    const pair = Buffer.from(String(headers.authorization).replace('Basic ', ''), 'base64').toString();
    expect(pair).toBe('globex-web:globex-web-secret-for%2Bdevelopment%2Fonly%26%3D%2520%3A%3F');
    expect(body).not.toHaveProperty('client_id');
    expect(body).not.toHaveProperty('client_secret');
  });

  it('as a public client by PKCE only, without a secret, not even an empty one', async () => {
    const { headers, body } = await tokenRequestOf({}, true);
    expect(headers.authorization).toBeUndefined();
    expect(body).toMatchObject({ client_id: 'globex-app' });
    expect(body).not.toHaveProperty('client_secret');
  });

  it('never in the URL', async () => {
    const { query } = await tokenRequestOf({});
    expect(query).toEqual({});
  });
});
