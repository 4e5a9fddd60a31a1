import { randomBytes } from 'node:crypto';
import { refusedClient } from '../problems/token-endpoint-problems.js';
import { browserLoginOf } from '../tenants/tenant.js';
import { withTimeout } from '../time/with-timeout.js';
import type { OAuthClient } from '../tokens/client-authentication.js';
import { parseTokenReply } from '../tokens/token-reply.js';
import { unusable, type Examination, type Reply } from './examination.js';
import { unknown, wrong } from './finding.js';

/** An access token of the REST API. */
export function token(examination: Examination, scope = examination.tenant.scope): Promise<string> {
  const { clientId: id, clientAuth: auth, tokenUrl } = examination.tenant;
  const form = { grant_type: 'client_credentials', ...(scope === null ? {} : { scope }) };
  return judge(examination, '', { id, auth, tokenUrl, audience: tokenUrl }, form, (reply) => {
    const read = reply.status < 300 && !reply.error ? parseTokenReply(reply.json, scope) : undefined;
    examination.token = read?.kind === 'granted' ? read.accessToken : examination.token;
    return read?.kind === 'granted';
  });
}

/** Redeems a code that does not exist: the client is refused before the code is looked at (RFC 6749 §5.2). */
export function loginClient(examination: Examination): Promise<string> {
  examination.loginClient ??= redeem(examination);
  return examination.loginClient;
}

async function redeem(examination: Examination): Promise<string> {
  examination.requireUnrefuted('login.clientId');
  const { clientId: id, clientAuth: auth, issuer, redirectUri } = browserLoginOf(examination.tenant);
  const client = { id, auth, tokenUrl: examination.endpoint('token'), audience: issuer };
  const code = randomBytes(32).toString('base64url');
  const form = { grant_type: 'authorization_code', code, redirect_uri: redirectUri, code_verifier: code };
  return judge(examination, 'login.', client, form, ({ error }) => error?.oauthError === 'invalid_grant');
}

/** Whether the token endpoint accepts a client, whose options begin with `prefix`. */
async function judge(
  examination: Examination,
  prefix: '' | 'login.',
  endpoint: OAuthClient,
  form: Readonly<Record<string, string>>,
  accepts: (reply: Reply) => boolean,
): Promise<string> {
  const { tenant, knowsClient } = examination;
  const { clientSecret: source } = (prefix === '' ? tenant.settings : tenant.login) ?? {};
  const read = async () => (typeof source === 'function' ? source() : source);
  // What the function throws may contain the secret.
  const secret = await withTimeout(tenant.http.deadline, read).catch(() => '');
  if (typeof source === 'function' && (typeof secret !== 'string' || secret === '')) {
    throw wrong(`${prefix}clientSecret`, 'the function answers no secret');
  }
  const client = { ...endpoint, ...(secret === undefined ? {} : { secret }) };
  const reply = await examination.grant(client, form);
  if (accepts(reply)) {
    return `the token endpoint accepts the ${prefix === '' ? 'API' : 'login'} client`;
  }
  const { error, status } = reply;
  const urlOption = prefix === '' ? tenant.tokenUrlOption : tenant.endpointOption('token');
  if (error === undefined || [404, 405, 429].includes(status) || status >= 500) {
    throw unusable(reply, urlOption, 'the token endpoint');
  }
  if (error.oauthError === 'invalid_client' && typeof client.auth !== 'object' && secret !== undefined) {
    const auth = client.auth === 'basic' ? 'post' : 'basic';
    if (accepts(await examination.grant({ ...client, auth }, form))) {
      throw wrong(`${prefix}clientAuth`, `the token endpoint accepts the client with '${auth}' only`);
    }
  }
  const { options, message: refused } = refusedClient(tenant, prefix, error);
  const isPadded = typeof secret === 'string' && secret.trim() !== secret;
  const message = isPadded ? `${refused}; the secret begins or ends with white space` : refused;
  if (prefix === 'login.' && error.oauthError === 'invalid_request') {
    throw unknown(message);
  }
  const suspects = options.filter((option) => option !== urlOption);
  const others = suspects.filter((option) => option !== 'login.clientId');
  throw wrong((knowsClient === true && others.length > 0 ? others : suspects).join(', '), message);
}
