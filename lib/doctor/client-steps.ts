import { secretAdvice } from '../problems/boot-advice.js';
import { refusedClient } from '../problems/token-endpoint-problems.js';
import { browserLoginOf } from '../tenants/tenant.js';
import { withTimeout } from '../time/with-timeout.js';
import type { OAuthClient } from '../tokens/client-authentication.js';
import { refusesSecret } from '../tokens/client-secret.js';
import { parseTokenReply } from '../tokens/token-reply.js';
import { isAbsent, unusable, type Examination, type GrantReply } from './examination.js';
import { unknown, wrong } from './finding.js';

/** No provider has issued it. */
const NO_CODE = 'nestjs-exhibitor-doctor-asks-whether-you-know-this-client';

/** An access token of the REST API. */
export function token(examination: Examination, scope = examination.tenant.settings.scope): Promise<string> {
  const { settings, tokenUrl } = examination.tenant;
  const { clientId: id, clientAuth: auth } = settings;
  const form = { grant_type: 'client_credentials', ...(scope === null ? {} : { scope }) };
  return tryClient(examination, '', { id, auth, tokenUrl, audience: tokenUrl }, form, (reply) => {
    const read = parseTokenReply(reply.json, scope);
    const isGranted = read.kind === 'granted' && reply.status < 300 && reply.error === undefined;
    examination.token = isGranted ? read.accessToken : examination.token;
    return isGranted;
  });
}

/** The client of a login. It is refused before its code is looked at (RFC 6749 §5.2). */
export async function loginClient(examination: Examination): Promise<string> {
  const { clientId: id, clientAuth: auth, issuer, redirectUri } = browserLoginOf(examination.tenant);
  const client = { id, auth, tokenUrl: examination.urlOf('token'), audience: issuer };
  const code = { code: NO_CODE, redirect_uri: redirectUri, code_verifier: NO_CODE };
  const form = { grant_type: 'authorization_code', ...code };
  return tryClient(examination, 'login.', client, form, ({ error }) => error?.oauthError === 'invalid_grant');
}

/** Whether the token endpoint accepts a client, whose options begin with `prefix`. */
async function tryClient(
  examination: Examination,
  prefix: '' | 'login.',
  withoutSecret: OAuthClient,
  form: Readonly<Record<string, string>>,
  accepts: (reply: GrantReply) => boolean,
): Promise<string> {
  const { tenant } = examination;
  const { clientSecret: source } = (prefix === '' ? tenant.settings : tenant.login) ?? {};
  const read = async () => (typeof source === 'function' ? source() : source);
  // What the function throws may contain the secret.
  const secret = await withTimeout(tenant.http.deadline, read).catch(() => '');
  if (typeof source === 'function' && (typeof secret !== 'string' || secret === '')) {
    throw wrong(`${prefix}clientSecret`, 'the function answers no secret');
  }
  const client = { ...withoutSecret, ...(secret === undefined ? {} : { secret }) };
  const reply = await examination.grant(client, form);
  if (accepts(reply)) {
    return `the token endpoint accepts the ${prefix === '' ? 'API' : 'login'} client`;
  }
  const { error } = reply;
  const urlOption = prefix === '' ? tenant.tokenUrlOption : tenant.endpointOption('token');
  if (error === undefined || isAbsent(reply)) {
    throw unusable(reply, urlOption, 'the token endpoint');
  }
  if (refusesSecret(error.oauthError) && typeof client.auth !== 'object' && secret !== undefined) {
    const auth = client.auth === 'basic' ? 'post' : 'basic';
    if (accepts(await examination.grant({ ...client, auth }, form))) {
      throw wrong(`${prefix}clientAuth`, `the token endpoint accepts the client with '${auth}' only`);
    }
  }
  const { options, message } = refusedClient(tenant, prefix, error);
  if (prefix === 'login.' && error.oauthError === 'invalid_request') {
    throw unknown(message);
  }
  // A client that the authorize endpoint knows is not wrong.
  const possible = options.filter((option) => option !== 'login.clientId' || !examination.knowsClient);
  if (possible.length === 0) {
    throw unknown(message);
  }
  // The address answers.
  const suspects = possible.filter((option) => option !== urlOption);
  const advice = secretAdvice(`${prefix}clientSecret`, secret);
  throw wrong((suspects.length > 0 ? suspects : possible).join(', '), [message, ...advice].join('; '));
}
