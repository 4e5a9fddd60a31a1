import { randomBytes } from 'node:crypto';
import { refusedClient } from '../problems/token-endpoint-problems.js';
import { browserLoginOf } from '../tenants/tenant.js';
import { withTimeout } from '../time/with-timeout.js';
import type { OAuthClient } from '../tokens/client-authentication.js';
import { parseTokenReply } from '../tokens/token-reply.js';
import { endpointOf, NotTested, unusable, type Examination, type Reply } from './examination.js';
import { ok, unknown, wrong, type Verdict } from './finding.interface.js';

/** How one of the two clients of a tenant is tested. */
interface Test {
  client: OAuthClient;
  prefix: '' | 'login.';
  urlOption: string;
  form: Readonly<Record<string, string>>;
  accepts: (reply: Reply) => boolean;
}

/** An access token of the REST API. */
export async function token(examination: Examination, scope = examination.tenant.scope): Promise<Verdict> {
  const { clientId: id, clientAuth: auth, tokenUrl, tokenUrlOption: urlOption } = examination.tenant;
  const form = { grant_type: 'client_credentials', ...(scope === null ? {} : { scope }) };
  const accepts = ({ status, json, error }: Reply): boolean => {
    const reply = status < 300 && error === undefined ? parseTokenReply(json, scope) : undefined;
    examination.token = reply?.kind === 'granted' ? reply.accessToken : examination.token;
    return reply?.kind === 'granted';
  };
  const client = { id, auth, tokenUrl, audience: tokenUrl };
  return judge(examination, { client, prefix: '', urlOption, form, accepts });
}

/** Redeems a code that does not exist: the client is refused before the code is looked at (RFC 6749 §5.2). */
export function loginClient(examination: Examination): Promise<Verdict> {
  examination.loginVerdict ??= redeem(examination);
  return examination.loginVerdict;
}

async function redeem(examination: Examination): Promise<Verdict> {
  const { tenant, refuted } = examination;
  if (refuted.has('login.clientId')) {
    throw new NotTested("the step 'authorize' failed for login.clientId");
  }
  const tokenUrl = endpointOf(examination, 'token');
  const { clientId: id, clientAuth: auth, issuer: audience, redirectUri } = browserLoginOf(tenant);
  const [code = '', verifier = ''] = [32, 32].map((bytes) => randomBytes(bytes).toString('base64url'));
  return judge(examination, {
    client: { id, auth, tokenUrl, audience },
    prefix: 'login.',
    urlOption: tenant.endpointOption('token'),
    form: { grant_type: 'authorization_code', code, redirect_uri: redirectUri, code_verifier: verifier },
    accepts: ({ error }) => error?.oauthError === 'invalid_grant',
  });
}

async function judge(examination: Examination, test: Test): Promise<Verdict> {
  const { tenant, knowsClient } = examination;
  const { prefix, urlOption, form, accepts } = test;
  const { clientSecret } = (prefix === '' ? tenant.settings : tenant.login) ?? {};
  const read = typeof clientSecret === 'function' ? clientSecret : () => clientSecret;
  // What the function throws may contain the secret.
  const secret = await withTimeout(tenant.http.deadline, async () => read()).catch(() => '');
  if (typeof clientSecret === 'function' && (typeof secret !== 'string' || secret === '')) {
    return wrong(`${prefix}clientSecret`, 'the function answers no secret');
  }
  const client = { ...test.client, ...(secret === undefined ? {} : { secret }) };
  const reply = await examination.grant(client, form);
  if (accepts(reply)) {
    return ok(`the token endpoint accepts the ${prefix === '' ? 'API' : 'login'} client`);
  }
  const { error, status } = reply;
  if (error === undefined || [404, 405, 429].includes(status) || status >= 500) {
    return unusable(reply, urlOption, 'the token endpoint');
  }
  if (error.oauthError === 'invalid_client' && typeof client.auth !== 'object' && secret !== undefined) {
    const auth = client.auth === 'basic' ? 'post' : 'basic';
    if (accepts(await examination.grant({ ...client, auth }, form))) {
      return wrong(`${prefix}clientAuth`, `the token endpoint accepts the client with '${auth}' only`);
    }
  }
  const isPadded = typeof secret === 'string' && secret.trim() !== secret;
  const { options, message: refused } = refusedClient(tenant, prefix, error);
  const message = isPadded ? `${refused}; the secret begins or ends with white space` : refused;
  if (prefix === 'login.' && error.oauthError === 'invalid_request') {
    return unknown(message);
  }
  const suspects = options.filter((option) => option !== urlOption);
  const others = suspects.filter((option) => option !== 'login.clientId');
  return wrong((knowsClient === true && others.length > 0 ? others : suspects).join(', '), message);
}
