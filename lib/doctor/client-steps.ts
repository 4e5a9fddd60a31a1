import { randomBytes } from 'node:crypto';
import { refusedClient } from '../problems/token-endpoint-problems.js';
import { parseTokenReply } from '../tokens/token-reply.js';
import { endpointOf, unusable, type Examination, type Reply } from './examination.js';
import { NO_LOGIN, ok, PROVIDER, SERVICE, unknown, wrong, type Verdict } from './finding.interface.js';

/** One of the two clients of a tenant at the token endpoint. */
interface Client {
  kind: 'token' | 'code';
  prefix: '' | 'login.';
  url: string;
  urlOption: string;
  form: Readonly<Record<string, string>>;
  accepts: (reply: Reply) => boolean;
  proved: string;
  advice: string;
}

/** Asks for an access token of the REST API. */
export async function requestToken(examination: Examination, scope: string | null): Promise<Verdict> {
  const { tokenUrl: url, tokenUrlOption: urlOption } = examination.tenant;
  const form = { grant_type: 'client_credentials', ...(scope === null ? {} : { scope }) };
  const accepts = ({ status, json, error }: Reply): boolean => {
    const reply = status < 300 && error === undefined ? parseTokenReply(json, scope) : undefined;
    examination.token = reply?.kind === 'granted' ? reply.accessToken : examination.token;
    return reply?.kind === 'granted';
  };
  const proved = 'the token endpoint accepts the API client; whether its scope is enough shows the next step';
  return judge(examination, {
    kind: 'token',
    prefix: '',
    url,
    urlOption,
    form,
    accepts,
    proved,
    advice: SERVICE,
  });
}

/** Redeems a code that does not exist: the client is refused before the code is looked at (RFC 6749 §5.2). */
export async function login(examination: Examination): Promise<Verdict> {
  const { redirectUri } = examination.tenant.login ?? {};
  if (redirectUri === undefined) {
    return NO_LOGIN;
  }
  const isRefuted = examination.refuted.has('login.clientId');
  const url = isRefuted
    ? unknown("not tested: the step 'authorize' failed for login.clientId")
    : endpointOf(examination, 'token');
  if (typeof url !== 'string') {
    return url;
  }
  const [code, verifier] = [randomBytes(32).toString('base64url'), randomBytes(32).toString('base64url')];
  return judge(examination, {
    kind: 'code',
    prefix: 'login.',
    url,
    urlOption: examination.tenant.endpointOption('token'),
    form: { grant_type: 'authorization_code', code, redirect_uri: redirectUri, code_verifier: verifier },
    accepts: ({ error }) => error?.oauthError === 'invalid_grant',
    proved: 'the token endpoint accepts the login client',
    advice: PROVIDER,
  });
}

async function judge(examination: Examination, client: Client): Promise<Verdict> {
  const { tenant, knowsClient } = examination;
  const { kind, prefix, url, urlOption, form, accepts, proved, advice } = client;
  const reply = await examination.grant(kind, url, form);
  if (accepts(reply)) {
    return ok(proved);
  }
  const { error, status } = reply;
  if (error === undefined || status === 404 || status === 405) {
    return unusable(reply, urlOption, 'the token endpoint');
  }
  const { clientAuth, clientSecret } = (prefix === '' ? tenant.settings : tenant.login) ?? {};
  if (error.oauthError === 'invalid_client' && typeof clientAuth !== 'object' && clientSecret !== undefined) {
    const auth = clientAuth === 'basic' ? 'post' : 'basic';
    if (accepts(await examination.grant(kind, url, form, auth))) {
      return wrong(
        `${prefix}clientAuth`,
        `the token endpoint accepts the client with '${auth}' only`,
        advice,
      );
    }
  }
  const { options, message } = refusedClient(tenant, prefix, error);
  if (kind === 'code' && error.oauthError === 'invalid_request') {
    return unknown(message, advice);
  }
  const suspects = options.filter((option) => option !== urlOption);
  const others = suspects.filter((option) => option !== 'login.clientId');
  return wrong((knowsClient === true && others.length > 0 ? others : suspects).join(', '), message, advice);
}
