import { authorizationUrl } from '../login/exhibitor.strategy.js';
import { createPendingLogin } from '../login/pending-login.js';
import { parseUrl } from '../options/option-schemas.js';
import { browserLoginOf, isHybrid } from '../tenants/tenant.js';
import { loginClient } from './client-steps.js';
import { endpointOf, NotTested, unusable, type Examination, type Reply } from './examination.js';
import { ok, unknown, wrong, type Verdict } from './finding.interface.js';

/** What a provider answers to a client that it knows, since nobody is logged in (OIDC Core §3.1.2.6). */
const NOBODY = ['login_required', 'interaction_required', 'consent_required', 'account_selection_required'];

const OPTIONS_BY_ERROR = new Map([
  ['invalid_scope', 'login.scope'],
  ['unsupported_response_type', 'login.responseType'],
  ['unauthorized_client', 'login.clientId, login.responseType'],
  ['invalid_request', 'login.clientId, login.responseType'],
]);

/** Pages for people say what they refuse. Some repeat the address of the request, which does not count. */
const REFUSES_REDIRECT = /(?:redirect|callback)[ _-]ur[il](?![=%&])/i;
const REFUSES_CLIENT = /(?:invalid|unknown)[ _]client|client (?:is |was |id )?(?:not|invalid|unknown)/i;

/** With `prompt=none`, the authorize endpoint answers at once to the `redirectUri` of a client that it knows. */
export async function authorize(examination: Examination): Promise<Verdict> {
  const login = browserLoginOf(examination.tenant);
  const url = endpointOf(examination, 'authorize');
  const { redirectUri, responseType, maxAge } = login;
  const start = { tenant: '', provider: '', redirectUri, responseType, maxAge, startedAt: 0, former: [] };
  const address = new URL(await authorizationUrl(login, createPendingLogin(start), url, { prompt: 'none' }));
  // Only a redirect can be read without a browser.
  address.searchParams.delete('response_mode');
  const reply = await examination.send(address.href, { accept: 'text/html' });
  const { location = '' } = reply.headers;
  const target = location !== '' && URL.canParse(location, url) ? new URL(location, url) : undefined;
  const callback = new URL(redirectUri);
  if (target?.origin === callback.origin && target.pathname === callback.pathname) {
    examination.knowsClient = true;
    return responseVerdict(examination, new URLSearchParams(`${target.search}&${target.hash.slice(1)}`));
  }
  if (target !== undefined && !target.href.includes('error')) {
    return unknown(
      `the provider redirects to ${target.origin}, not to redirectUri: log in once by a browser`,
    );
  }
  const isPage = target !== undefined || (reply.status < 500 && ![0, 404, 405, 429].includes(reply.status));
  const option = examination.tenant.endpointOption('authorize');
  return isPage ? refusal(examination, reply) : unusable(reply, option, 'the authorize endpoint');
}

/** The parameters that the provider sends to `redirectUri`. */
function responseVerdict(examination: Examination, response: URLSearchParams): Verdict {
  const { issuer } = browserLoginOf(examination.tenant);
  const iss = response.get('iss') ?? issuer;
  if (iss !== issuer) {
    const message = `the provider answers as the issuer '${examination.shown(iss)}', not '${issuer}'`;
    return wrong('login.issuer', message);
  }
  const error = response.get('error');
  if (error === null || NOBODY.includes(error)) {
    return ok('the authorize endpoint knows login.clientId and answers to login.redirectUri');
  }
  const why = examination.shown(`${error} (${response.get('error_description')})`, 300);
  const option = OPTIONS_BY_ERROR.get(error);
  const message = `the authorize endpoint answers ${why}`;
  return option === undefined ? unknown(message) : wrong(option, message);
}

/** The provider shows a page of its own. Where that does not say why, the token endpoint may tell. */
async function refusal(examination: Examination, { text }: Reply): Promise<Verdict> {
  if (REFUSES_REDIRECT.test(text)) {
    examination.knowsClient = true;
  } else if (REFUSES_CLIENT.test(text)) {
    return wrong('login.clientId', 'the authorize endpoint does not know this client');
  }
  const isKnown =
    examination.knowsClient ?? (await loginClient(examination).catch(() => undefined))?.status === 'ok';
  const option = isKnown ? 'login.redirectUri' : 'login.clientId, login.redirectUri';
  return wrong(
    option,
    'the authorize endpoint refuses them; redirectUri must be registered character by character',
  );
}

/** Browsers send the cookies of a login to `redirectUri`, and back to the page where logins start. */
export function cookies({ tenant, hints }: Examination): Verdict {
  const login = browserLoginOf(tenant);
  if (hints.startUrl === undefined) {
    throw new NotTested('name the page where logins start by startUrl or --start-url');
  }
  const [start, callback] = [parseUrl(hints.startUrl), new URL(login.redirectUri)];
  if (start === undefined) {
    return wrong('startUrl', 'startUrl must be an absolute URL');
  }
  const isDowngrade = start.protocol === 'http:' && callback.protocol === 'https:';
  if (start.hostname !== callback.hostname || isDowngrade) {
    const message = `logins start on ${start.origin} and return to ${callback.origin}: browsers do not send its cookies to the other`;
    return wrong(
      'login.redirectUri',
      message,
      `Start logins on ${callback.origin}, or register another redirectUri.`,
    );
  }
  return isHybrid(login) && callback.protocol === 'http:'
    ? unknown(`over http, Safari refuses the SameSite=None cookie of responseType '${login.responseType}'`)
    : ok('browsers send the cookies of a login to redirectUri, and back to the page where logins start');
}
