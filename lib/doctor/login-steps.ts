import { authorizationUrl } from '../login/exhibitor.strategy.js';
import { createPendingLogin } from '../login/pending-login.js';
import { parseUrl } from '../options/option-schemas.js';
import { browserLoginOf, isHybrid } from '../tenants/tenant.js';
import { loginClient } from './client-steps.js';
import { unusable, type Examination } from './examination.js';
import { notTested, unknown, wrong, type Unproved } from './finding.js';

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
export async function authorize(examination: Examination): Promise<string> {
  const login = browserLoginOf(examination.tenant);
  const url = examination.endpoint('authorize');
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
    return answer(examination, new URLSearchParams(`${target.search}&${target.hash.slice(1)}`));
  }
  if (target !== undefined && !target.href.includes('error')) {
    throw unknown(`the provider redirects to ${target.origin}, not to redirectUri: log in once by a browser`);
  }
  if (target === undefined && (reply.status >= 500 || [0, 404, 405, 429].includes(reply.status))) {
    throw unusable(reply, examination.tenant.endpointOption('authorize'), 'the authorize endpoint');
  }
  throw await refusal(examination, reply.text);
}

/** The parameters that the provider sends to `redirectUri`. */
function answer(examination: Examination, response: URLSearchParams): string {
  const { issuer } = browserLoginOf(examination.tenant);
  const iss = response.get('iss') ?? issuer;
  if (iss !== issuer) {
    const message = `the provider answers as the issuer '${examination.shown(iss)}', not '${issuer}'`;
    throw wrong('login.issuer', message);
  }
  const error = response.get('error');
  if (error === null || NOBODY.includes(error)) {
    return 'the authorize endpoint knows login.clientId and answers to login.redirectUri';
  }
  const why = examination.shown(`${error} (${response.get('error_description')})`, 300);
  const option = OPTIONS_BY_ERROR.get(error);
  const message = `the authorize endpoint answers ${why}`;
  throw option === undefined ? unknown(message) : wrong(option, message);
}

/** The provider shows a page of its own. Where that does not say why, the token endpoint may tell. */
async function refusal(examination: Examination, page: string): Promise<Unproved> {
  if (REFUSES_REDIRECT.test(page)) {
    examination.knowsClient = true;
  } else if (REFUSES_CLIENT.test(page)) {
    return wrong('login.clientId', 'the authorize endpoint does not know this client');
  }
  if (examination.knowsClient === undefined) {
    const [verdict] = await Promise.allSettled([loginClient(examination)]);
    examination.knowsClient = verdict.status === 'fulfilled';
  }
  return wrong(
    examination.knowsClient ? 'login.redirectUri' : 'login.clientId, login.redirectUri',
    `the authorize endpoint refuses this login: '${browserLoginOf(examination.tenant).redirectUri}' must be registered, character by character`,
  );
}

/** Browsers send the cookies of a login to `redirectUri`, and back to the page where logins start. */
export function cookies({ tenant, hints }: Examination): string {
  const login = browserLoginOf(tenant);
  if (hints.startUrl === undefined) {
    throw notTested('name the page where logins start by startUrl or --start-url');
  }
  const [start, callback] = [parseUrl(hints.startUrl), new URL(login.redirectUri)];
  if (start?.protocol !== 'https:' && start?.protocol !== 'http:') {
    throw wrong('startUrl', 'it must be an https or http URL', 'Name the page by its whole address.');
  }
  const isDowngrade = start.protocol === 'http:' && callback.protocol === 'https:';
  if (start.hostname !== callback.hostname || isDowngrade) {
    throw wrong(
      'login.redirectUri',
      `logins start on ${start.origin} and return to ${callback.origin}: browsers do not send its cookies to the other`,
      `Start logins on ${callback.origin}, or register another redirectUri.`,
    );
  }
  if (isHybrid(login) && callback.protocol === 'http:') {
    throw unknown(
      `over http, Safari refuses the SameSite=None cookie of responseType '${login.responseType}'`,
    );
  }
  return 'browsers send the cookies of a login to redirectUri, and back to the page where logins start';
}
