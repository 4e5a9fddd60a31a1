import { authorizationUrl } from '../login/exhibitor.strategy.js';
import { parseUrl } from '../options/value-schemas.js';
import { shownUrl } from '../problems/address-problems.js';
import { browserLoginOf } from '../tenants/tenant.js';
import { loginClient, pendingLogin } from './client-steps.js';
import { unusable, type Diagnosis } from './diagnosis.js';
import { notTested, unknown, wrong } from './finding.js';

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
export async function authorize(diagnosis: Diagnosis): Promise<string> {
  const login = browserLoginOf(diagnosis.tenant);
  const url = diagnosis.urlOf('authorize');
  const { redirectUri } = login;
  const address = new URL(await authorizationUrl(login, pendingLogin(login), url, { prompt: 'none' }));
  // Only a redirect can be read without a browser.
  address.searchParams.delete('response_mode');
  const reply = await diagnosis.probe(address.href, { accept: 'text/html' });
  const { location = '' } = reply.headers;
  const target = location !== '' && URL.canParse(location, url) ? new URL(location, url) : undefined;
  const callback = new URL(redirectUri);
  if (target?.origin === callback.origin && target.pathname === callback.pathname) {
    return answer(diagnosis, new URLSearchParams(`${target.search}&${target.hash.slice(1)}`));
  }
  if (target !== undefined && !target.href.includes('error')) {
    throw unknown(`the provider redirects to ${target.origin}, not to redirectUri: log in once by a browser`);
  }
  const { status } = reply;
  if (target === undefined && ([0, 404, 405, 429].includes(status) || status >= 500)) {
    throw unusable(reply, diagnosis.tenant.endpointOption('authorize'), url);
  }
  const suspects = await suspectsOf(diagnosis, reply.text);
  const why =
    suspects === 'login.clientId'
      ? 'it does not know the client'
      : `'${redirectUri}' must be registered for the client, character by character`;
  throw wrong(suspects, `${shownUrl(url)} refuses this login: ${why}`);
}

/** The parameters that the provider sends to `redirectUri`. */
function answer(diagnosis: Diagnosis, response: URLSearchParams): string {
  const error = response.get('error');
  const option = OPTIONS_BY_ERROR.get(error ?? '');
  diagnosis.knowsClient = option?.includes('login.clientId') !== true;
  if (error === null || NOBODY.includes(error)) {
    return 'the authorize endpoint knows login.clientId and answers to login.redirectUri';
  }
  const why = diagnosis.shown(`${error} (${response.get('error_description')})`, 300);
  const message = `the authorize endpoint answers ${why}`;
  throw option === undefined ? unknown(message) : wrong(option, message);
}

/** What the page of a provider refuses. Where it does not say, the token endpoint may tell. */
async function suspectsOf(diagnosis: Diagnosis, page: string): Promise<string> {
  if (REFUSES_REDIRECT.test(page)) {
    diagnosis.knowsClient = true;
  } else if (REFUSES_CLIENT.test(page)) {
    return 'login.clientId';
  }
  const isKnown = diagnosis.knowsClient || (await loginClient(diagnosis).then(Boolean, () => false));
  return isKnown ? 'login.redirectUri' : 'login.clientId, login.redirectUri';
}

/** Browsers send the cookies of a login to `redirectUri`, and back to the page where logins start. */
export function cookies({ tenant, hints }: Diagnosis): string {
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
  return 'browsers send the cookies of a login to redirectUri, and back to the page where logins start';
}
