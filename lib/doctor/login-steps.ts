import { CodeExchange } from '../login/code-exchange.service.js';
import { authorizationUrl } from '../login/exhibitor.strategy.js';
import { createPendingLogin, type PendingLogin } from '../login/pending-login.js';
import { keySetOf } from '../oidc/key-set.js';
import { metadataUrl, OpenIdProvider } from '../oidc/openid-provider.service.js';
import { unverified } from '../oidc/verify-signature.js';
import { isAllowedUrl, parseUrl } from '../options/value-schemas.js';
import { browserLoginOf, loginOf, type BrowserLogin } from '../tenants/tenant.js';
import type { Deadline } from '../time/deadline.js';
import { prove, Unproved, type Diagnosis } from './diagnosis.js';

const NO_CODE = 'nestjs-exhibitor-doctor-asks-whether-you-know-this-client';

/** How a provider says that it has no such issuer. Keycloak: `Realm does not exist`; Entra ID: `Tenant 'x' not found`. */
const NO_SUCH_ISSUER = /(?:realm|tenant|issuer)\b.{0,80}\b(?:not|unknown|invalid)/i;

/** What a provider answers to a client that it knows, since nobody is logged in (OIDC Core §3.1.2.6). */
const NOBODY = ['login_required', 'interaction_required', 'consent_required', 'account_selection_required'];

const OPTIONS_BY_ERROR: ReadonlyMap<string, readonly string[]> = new Map([
  ['invalid_scope', ['login.scope']],
  ['unsupported_response_type', ['login.responseType']],
  ['unauthorized_client', ['login.clientId', 'login.responseType']],
  ['invalid_request', ['login.clientId', 'login.responseType']],
]);

/** Pages for people say what they refuse. Some repeat the address of the request, which does not count. */
const REFUSES_REDIRECT = /(?:redirect|callback)[ _-]ur[il](?![=%&])/i;
const REFUSES_CLIENT = /(?:invalid|unknown)[ _]client|client (?:is |was |id )?(?:not|invalid|unknown)/i;

/** What contradicts the issuer. One provider may have many: the realms of Keycloak, the tenants of Entra ID. */
export async function metadata(diagnosis: Diagnosis): Promise<string> {
  const { tenant, options, accessToken, findings } = diagnosis;
  const { issuer, discovery } = loginOf(tenant);
  const { json: own, text, message } = await diagnosis.probe(metadataUrl(issuer));
  const { json: other } = await diagnosis.probe(metadataUrl(tenant.authUrl));
  const { iss } = unverified(accessToken, 'claims');
  const endpoint = own['token_endpoint'];
  const agree = (what: string, found: unknown, expected: unknown, ...also: string[]): void => {
    const difference = `${what} '${diagnosis.shown(found)}', not '${expected}'`;
    prove(found === undefined || found === expected, difference, 'login.issuer', ...also);
  };
  agree('the provider is the issuer', own['issuer'], issuer);
  // What comes from a wrong authUrl says nothing of the issuer.
  const isAuthUrlWrong = findings.some(({ option }) => option?.split(', ').includes('authUrl'));
  const isConfirmed = iss === issuer || endpoint === tenant.tokenUrl;
  if (!isAuthUrlWrong && !isConfirmed) {
    const ownTokenUrl = tenant.settings.endpoints?.token;
    agree('the provider is the issuer', own['issuer'] ?? other['issuer'], issuer);
    agree('the access token of the API is from the issuer', iss, issuer);
    agree('the token endpoint of the issuer is', endpoint, ownTokenUrl ?? endpoint, 'endpoints.token');
  }
  const suspects = discovery || NO_SUCH_ISSUER.test(text) ? ['login.issuer'] : [];
  prove(own['issuer'] !== undefined, `no metadata proves the issuer: ${message}`, ...suspects);
  const keys = String(own['jwks_uri'] ?? '');
  diagnosis.publishedKeys = isAllowedUrl(keys, tenant.key, options.settings.allowedOrigins) ? keys : '';
  return 'nothing that the provider publishes contradicts the issuer';
}

export async function publishedKey(diagnosis: Diagnosis, deadline: Deadline): Promise<string> {
  const { tenant, context, publishedKeys } = diagnosis;
  const { keys: source } = loginOf(tenant);
  diagnosis.needsSource(tenant.keysOption);
  const { keys } = await context.get(OpenIdProvider).keysOf(tenant, deadline);
  const url = publishedKeys || (source?.kind === 'url' ? source.url : '');
  prove(url !== '', 'no keys of the provider to compare with');
  const { json, message } = await diagnosis.probe(url);
  const published = await keySetOf(json);
  prove(published !== undefined, `no keys of the provider to compare with: ${diagnosis.shown(message)}`);
  const isPublished = published.keys.some((key) => keys.some((own) => own.equals(key)));
  const rotated = 'the provider publishes none of these keys. If it has rotated them: a JWKS URL follows';
  prove(isPublished, rotated, 'login.keys');
  return 'the provider publishes such a key; a login only proves that it signs with it';
}

/** With `prompt=none`, the authorize endpoint answers at once to the `redirectUri` of a client that it knows. */
export async function authorize(diagnosis: Diagnosis, deadline: Deadline): Promise<string> {
  const { tenant, context, proved } = diagnosis;
  const browser = browserLoginOf(tenant);
  const option = tenant.endpointOption('authorize');
  diagnosis.needsSource(option);
  const url = await context.get(OpenIdProvider).urlOf(tenant, 'authorize', deadline);
  const address = new URL(await authorizationUrl(browser, pendingLogin(browser), url, { prompt: 'none' }));
  // Only a redirect can be read without a browser.
  address.searchParams.delete('response_mode');
  const reply = await diagnosis.probe(address.href, { accept: 'text/html' });
  const { location = '' } = reply.headers;
  const target = location !== '' && URL.canParse(location, url) ? new URL(location, url) : undefined;
  const callback = new URL(browser.redirectUri);
  if (target?.origin === callback.origin && target.pathname === callback.pathname) {
    return answer(diagnosis, new URLSearchParams(`${target.search}&${target.hash.slice(1)}`));
  }
  // Some providers redirect to the page that says what they refuse.
  const isPage = target === undefined || target.href.includes('error');
  prove(isPage, `the provider redirects to ${target?.origin}, not to redirectUri: log in once by a browser`);
  // Pages for people are answered with 200, 400, 401 or 403.
  prove(reply.status >= 200 && reply.status <= 403, reply, option);
  const message = `${reply.message}: it refuses the client, or '${browser.redirectUri}' is not registered for it`;
  const refusesRedirect = REFUSES_REDIRECT.test(reply.text);
  prove(refusesRedirect || !REFUSES_CLIENT.test(reply.text), message, 'login.clientId');
  // Where the page does not say which, the token endpoint may tell. What is proved is no finding.
  if (refusesRedirect || (await loginClient(diagnosis, deadline).then(Boolean, () => false))) {
    proved.add('login.clientId');
  }
  throw new Unproved(message, ['login.clientId', 'login.redirectUri']);
}

/** The parameters that the provider sends to `redirectUri`. */
function answer(diagnosis: Diagnosis, response: URLSearchParams): string {
  const error = response.get('error') ?? '';
  const options = OPTIONS_BY_ERROR.get(error) ?? [];
  if (!options.includes('login.clientId')) {
    diagnosis.proved.add('login.clientId');
  }
  const said = diagnosis.shown(`${error} (${response.get('error_description')})`);
  prove(error === '' || NOBODY.includes(error), `the authorize endpoint answers ${said}`, ...options);
  return 'the authorize endpoint knows login.clientId and answers to login.redirectUri';
}

/** The client of a login. It is refused before its code is looked at (RFC 6749 §5.2). */
export async function loginClient(diagnosis: Diagnosis, deadline: Deadline): Promise<string> {
  const { tenant, context, seen } = diagnosis;
  const pending = pendingLogin(browserLoginOf(tenant));
  diagnosis.needsSource(tenant.endpointOption('token'));
  try {
    await context.get(CodeExchange).redeem(tenant, pending, NO_CODE, deadline);
  } catch (error) {
    if (Object(error)['oauthError'] !== 'invalid_grant') {
      throw error;
    }
  }
  return `${seen.address} accepts the login client`;
}

function pendingLogin({ redirectUri, responseType, maxAge }: BrowserLogin): PendingLogin {
  const start = { tenant: '', provider: '', redirectUri, responseType, maxAge, former: [] };
  return createPendingLogin(start, '0');
}

/** Cookies of a login are those of one origin. */
export async function cookies({ tenant, hints }: Diagnosis): Promise<string> {
  const { startUrl } = hints;
  const { origin } = new URL(browserLoginOf(tenant).redirectUri);
  prove(startUrl !== undefined, 'not tested: name the page where logins start by startUrl or --start-url');
  const message = `browsers send no cookie of ${origin}, where logins end, to ${startUrl}: start them on the same origin`;
  prove(parseUrl(startUrl)?.origin === origin, message, 'login.redirectUri');
  return 'browsers send the cookies of a login to redirectUri, and back to the page where logins start';
}
