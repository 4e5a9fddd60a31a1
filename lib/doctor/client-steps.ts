import { randomBytes } from 'node:crypto';
import { refusedClient } from '../problems/token-endpoint-problems.js';
import { browserLoginOf } from '../tenants/tenant.js';
import { parseTokenReply } from '../tokens/token-reply.js';
import { endpointOf, notTested, unusable, type Examination, type Reply } from './examination.js';
import { ok, unknown, wrong, type Verdict } from './finding.interface.js';

/** One of the two clients of a tenant at the token endpoint. */
interface Client {
  kind: 'token' | 'code';
  prefix: '' | 'login.';
  url: string;
  urlOption: string;
  form: Readonly<Record<string, string>>;
  accepts: (reply: Reply) => boolean;
}

/** An access token of the REST API. */
export async function token(examination: Examination, scope = examination.tenant.scope): Promise<Verdict> {
  const { tokenUrl: url, tokenUrlOption: urlOption } = examination.tenant;
  const form = { grant_type: 'client_credentials', ...(scope === null ? {} : { scope }) };
  const accepts = ({ status, json, error }: Reply): boolean => {
    const reply = status < 300 && error === undefined ? parseTokenReply(json, scope) : undefined;
    examination.token = reply?.kind === 'granted' ? reply.accessToken : examination.token;
    return reply?.kind === 'granted';
  };
  return judge(examination, { kind: 'token', prefix: '', url, urlOption, form, accepts });
}

/** Redeems a code that does not exist: the client is refused before the code is looked at (RFC 6749 §5.2). */
export function loginClient(examination: Examination): Promise<Verdict> {
  examination.loginVerdict ??= redeem(examination);
  return examination.loginVerdict;
}

async function redeem(examination: Examination): Promise<Verdict> {
  const { tenant, refuted } = examination;
  const url = endpointOf(examination, 'token');
  if (typeof url !== 'string' || refuted.has('login.clientId')) {
    return typeof url === 'string' ? unknown(notTested('authorize', 'login.clientId')) : url;
  }
  const [code = '', verifier = ''] = [32, 32].map((bytes) => randomBytes(bytes).toString('base64url'));
  const { redirectUri } = browserLoginOf(tenant);
  const form = { grant_type: 'authorization_code', code, redirect_uri: redirectUri, code_verifier: verifier };
  const accepts = ({ error }: Reply): boolean => error?.oauthError === 'invalid_grant';
  const urlOption = tenant.endpointOption('token');
  return judge(examination, { kind: 'code', prefix: 'login.', url, urlOption, form, accepts });
}

async function judge(examination: Examination, client: Client): Promise<Verdict> {
  const { tenant, knowsClient } = examination;
  const { kind, prefix, url, urlOption, form, accepts } = client;
  const reply = await examination.grant(kind, url, form);
  if (accepts(reply)) {
    return ok(`the token endpoint accepts the ${prefix === '' ? 'API' : 'login'} client`);
  }
  const { error, status } = reply;
  if (error === undefined || status === 404 || status === 405) {
    return unusable(reply, urlOption, 'the token endpoint');
  }
  const { clientAuth, clientSecret } = (prefix === '' ? tenant.settings : tenant.login) ?? {};
  if (error.oauthError === 'invalid_client' && typeof clientAuth !== 'object' && clientSecret !== undefined) {
    const auth = clientAuth === 'basic' ? 'post' : 'basic';
    if (accepts(await examination.grant(kind, url, form, auth))) {
      return wrong(`${prefix}clientAuth`, `the token endpoint accepts the client with '${auth}' only`);
    }
  }
  const { options, message } = refusedClient(tenant, prefix, error);
  if (kind === 'code' && error.oauthError === 'invalid_request') {
    return unknown(message);
  }
  const suspects = options.filter((option) => option !== urlOption);
  const others = suspects.filter((option) => option !== 'login.clientId');
  return wrong((knowsClient === true && others.length > 0 ? others : suspects).join(', '), message);
}
