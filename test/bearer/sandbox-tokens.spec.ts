/** The access tokens that the sandbox grants to people, and the recipe of docs/recipes.md for them. */
import { createHash, randomBytes } from 'node:crypto';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { decodeJwt } from 'jose';
import type { ExhibitorModuleOptions } from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { bodyOf, signIn } from '../guards/signed-in.js';
import { namedSnippets } from '../structure/readme.js';
import { startHost, type Host } from '../support/host.js';
import { startSandbox } from '../support/sandbox.js';
import { loadSnippets } from '../support/snippets.js';
import { Visitor } from '../support/visitor.js';

const run = promisify(execFile);
const REDIRECT_URI = 'http://127.0.0.1:3999/app';

let sandbox: ExhibitorSandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox?.stop());

/** The reply to a code that a client gets for Sam. */
async function logInWith(
  clientId: string,
  more: Record<string, string> = {},
): Promise<Record<string, string>> {
  sandbox.signInAs('sam.several');
  const verifier = randomBytes(32).toString('base64url');
  const request = new URLSearchParams({
    client_id: clientId,
    response_type: 'code',
    scope: 'openid profile',
    redirect_uri: REDIRECT_URI,
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
    ...more,
  });
  const answer = await fetch(`${sandbox.url}/connect/authorize?${request}`, { redirect: 'manual' });
  const back = new URL(answer.headers.get('location') ?? '');
  const code = back.searchParams.get('code');
  if (code === null) {
    return Object.fromEntries(back.searchParams);
  }
  const form = {
    grant_type: 'authorization_code',
    client_id: clientId,
    code,
    redirect_uri: REDIRECT_URI,
    code_verifier: verifier,
  };
  const reply = await fetch(`${sandbox.url}/connect/token`, {
    method: 'POST',
    body: new URLSearchParams(form),
  });
  return (await reply.json()) as Record<string, string>;
}

describe('the access tokens of people', () => {
  const CLAIMS = {
    aud: 'portal-api',
    client_id: 'portal-app',
    sub: 'sam.several',
    email: 'sam.several@example.com',
    email_verified: true,
  };

  it('are JWT for the API of a host where the client is portal-app, by login and without', async () => {
    const { access_token: byLogin = '', id_token: idToken } = await logInWith('portal-app');
    expect(idToken).toBeDefined();
    const tokens = [byLogin, await sandbox.accessToken('sam.several@example.com')];
    for (const claims of tokens.map((token) => decodeJwt(token))) {
      expect(claims).toMatchObject({ iss: sandbox.url, ...CLAIMS });
      expect(Number(claims.exp) - Number(claims.iat)).toBe(3600);
    }
    await expect(sandbox.accessToken('nobody')).rejects.toThrow('no such person');
  });

  it('are opaque where the client is that of a tenant', async () => {
    const { access_token: token } = await logInWith('acme-app');
    expect(token?.split('.')).toHaveLength(1);
  });

  it('give no access to the REST API, whatever the application asks for', async () => {
    const token = await sandbox.accessToken('sam.several');
    const { tenantId } = sandbox.tenantOptions('acme');
    const reply = await fetch(`${sandbox.url}/api/v1/exhibitor/event/world-2026`, {
      headers: { authorization: `Bearer ${token}`, 'x-tenant-id': tenantId },
    });
    expect(reply.status).toBe(401);
    const resource = `${sandbox.url}/api/v1`;
    expect(await logInWith('portal-app', { resource })).toMatchObject({ error: 'invalid_target' });
  });

  it('carry the e-mail claims of the person', async () => {
    const emails = ['mo.mailless', 'uma.unverified'].map(async (person) => {
      const { email, email_verified: verified } = decodeJwt(await sandbox.accessToken(person));
      return [email, verified];
    });
    expect(await Promise.all(emails)).toEqual([
      [undefined, undefined],
      ['uma.unverified@example.com', false],
    ]);
  });
});

describe("a host with session: ['cookie', 'bearer']", () => {
  let host: Host;
  beforeAll(async () => {
    const { portalOptions } = await loadSnippets<{ portalOptions(): ExhibitorModuleOptions }>(
      'recipes.md',
      'bearer-and-cookie',
    );
    host = await startHost({
      options: (redirectUri) => {
        const before = { ...process.env };
        Object.assign(process.env, sandbox.environment('acme', { redirectUri }));
        try {
          return portalOptions();
        } finally {
          process.env = before;
        }
      },
    });
  });
  afterAll(() => host?.close());

  const visit = (path: string, token: string) =>
    new Visitor().visit(`${host.url}${path}`, { headers: { authorization: `Bearer ${token}` } });

  it('answers to the curl of the recipe', async () => {
    const script = namedSnippets('docs/recipes.md', 'bearer-curl')[0];
    const command = 'npx nestjs-exhibitor sandbox --print-token ';
    expect(script).toContain(command);
    // What the command asks: it is run by test/package.
    const own = script
      .replace(command, `curl -s ${sandbox.url}/sandbox/token?person=`)
      .replaceAll('http://127.0.0.1:3000', host.url);
    const { stdout } = await run('sh', ['-c', own]);
    expect(JSON.parse(stdout)).toHaveLength(3);
  });

  it('knows a person by a token, and by a login', async () => {
    const me = await visit('/me', await sandbox.accessToken('olga.one'));
    expect([me.status, bodyOf(me)['identity']]).toEqual([
      200,
      expect.objectContaining({ email: 'olga.one@example.com', clientId: 'portal-app' }),
    ]);
    const visitor = await signIn(sandbox, host);
    const reply = await visitor.visit(`${host.url}/events/world-2026/mine`);
    expect(bodyOf<unknown[]>(reply)).toHaveLength(3);
  });

  it.each([
    ['uma.unverified', 'email_unverified'],
    ['nora.none', undefined],
  ])('refuses %s as a login would', async (person, reason) => {
    const reply = await visit('/events/world-2026/mine', await sandbox.accessToken(person));
    expect([reply.status, bodyOf(reply)['reason']]).toEqual([reason === undefined ? 403 : 401, reason]);
  });

  it('refuses tokens for another API', async () => {
    const { clientId, clientSecret } = sandbox.tenantOptions('acme');
    const form = { grant_type: 'client_credentials', client_id: clientId, client_secret: clientSecret };
    const body = new URLSearchParams(form);
    const granted = await fetch(`${sandbox.url}/connect/token`, { method: 'POST', body });
    const { access_token: token } = (await granted.json()) as { access_token: string };
    const reply = await visit('/me', token);
    expect([reply.status, bodyOf(reply)['reason']]).toEqual([401, 'audience']);
  });
});
