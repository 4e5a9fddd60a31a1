import { CodeExchange } from '../login/code-exchange.service.js';
import { authorizationUrl } from '../login/exhibitor.strategy.js';
import { createPendingLogin, type PendingLogin } from '../login/pending-login.js';
import { OpenIdProvider } from '../oidc/openid-provider.service.js';
import { metadataUrl, parseMetadata, publishedUrl } from '../oidc/parse-metadata.js';
import type { KeySource } from '../options/key-source.js';
import { parseUrl } from '../options/value-schemas.js';
import { shownUrl } from '../problems/address-problems.js';
import { browserLoginOf, loginOf, type BrowserLogin } from '../tenants/tenant.js';
import { jsonIn, unusable, type Diagnosis } from './diagnosis.js';
import { notTested, unknown, wrong } from './finding.js';

/** No provider has issued it. */
const NO_CODE = 'nestjs-exhibitor-doctor-asks-whether-you-know-this-client';

/** How a provider says that it has no such issuer. Keycloak: `Realm does not exist`; Entra ID: `Tenant 'x' not found`. */
const NO_SUCH_ISSUER = /(?:realm|tenant|issuer)\b.{0,80}\b(?:not|unknown|invalid)/i;

/** Members that two equal public keys have in common (RFC 7638 §3.2). */
const KEY_MEMBERS = ['kty', 'crv', 'n', 'e', 'x', 'y'];

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

/**
 * What contradicts the issuer: its metadata (Discovery 1.0 §3), the `iss` of the API's access token, and a token endpoint of another
 * issuer. One provider may have many: the realms of Keycloak, the tenants of Entra ID.
 */
export async function metadata(diagnosis: Diagnosis): Promise<string> {
  const { tenant, accessToken, claims, findings, checked } = diagnosis;
  const { issuer, discovery } = loginOf(tenant);
  // An issuer need not be an address (OIDC Core §2).
  const isAddress = parseUrl(issuer)?.protocol.startsWith('http') === true;
  const text = isAddress ? (await diagnosis.probe(metadataUrl(issuer))).text : '';
  const json = jsonIn(text);
  const own = json?.['issuer'] === undefined ? undefined : json;
  const other = jsonIn((await diagnosis.probe(metadataUrl(tenant.authUrl))).text);
  const tokenIssuer = claims?.['iss'];
  const endpoint = own?.['token_endpoint'];
  const isOfOther = findings.some(({ option }) => option?.split(', ').includes('authUrl'));
  const isProved = tokenIssuer === issuer || endpoint === tenant.tokenUrl || isOfOther;
  const named = own?.['issuer'] ?? (isProved ? undefined : other?.['issuer']);
  const differs = (what: string, found: unknown, expected: string): string =>
    `${what} '${diagnosis.shown(found)}', not '${diagnosis.shown(expected)}'`;
  if (named !== undefined && named !== issuer) {
    throw wrong(['login.issuer'], differs('the provider is the issuer', named, issuer));
  }
  if (!isProved && tokenIssuer !== undefined) {
    const message = differs('the access token of the API is from the issuer', tokenIssuer, issuer);
    throw wrong(['login.issuer'], message);
  }
  if (!isProved && endpoint !== undefined && tenant.settings.endpoints?.token !== undefined) {
    const suspects = ['login.issuer', ...(accessToken === '' ? ['endpoints.token'] : [])];
    throw wrong(suspects, differs('the token endpoint of the issuer is', endpoint, tenant.tokenUrl));
  }
  if (own === undefined && (discovery || NO_SUCH_ISSUER.test(text))) {
    throw wrong(['login.issuer'], `there is no metadata at ${shownUrl(metadataUrl(issuer))}`);
  }
  const read = parseMetadata(own ?? other, issuer);
  if ('reason' in read) {
    throw unknown('the provider publishes no metadata that proves the issuer');
  }
  const url = publishedUrl(read, 'keys', tenant.key, checked.settings.allowedOrigins);
  diagnosis.publishedKeys = typeof url === 'string' ? url : undefined;
  return 'nothing that the provider publishes contradicts the issuer';
}

/** The keys can be used, and the provider publishes one of them. */
export async function publishedKey(diagnosis: Diagnosis): Promise<string> {
  const { tenant, context, publishedKeys } = diagnosis;
  const source = loginOf(tenant).keys ?? { kind: 'url', url: publishedKeys ?? tenant.authUrl };
  await diagnosis.ask(tenant.keysOption, source.kind === 'url' ? source.url : tenant.authUrl, (deadline) =>
    context.get(OpenIdProvider).keysOf(tenant, deadline),
  );
  const ours = await namesOf(diagnosis, source);
  const url = publishedKeys ?? (source.kind === 'url' ? source.url : undefined);
  const published = url === undefined ? [] : await namesOf(diagnosis, { kind: 'url', url });
  if (published.length === 0) {
    throw unknown('the provider publishes no keys to compare with');
  }
  if (!published.some((key) => ours.includes(key))) {
    const message = 'the provider publishes none of these keys. If it has rotated them: a JWKS URL follows';
    throw wrong(['login.keys'], message);
  }
  return 'the provider publishes such a key; a login only proves that it signs with it';
}

/** Equal keys have equal names. */
async function namesOf(diagnosis: Diagnosis, source: KeySource): Promise<string[]> {
  const nameOf = (key: unknown): string => JSON.stringify(key, KEY_MEMBERS);
  if (source.kind === 'pem') {
    return [nameOf(source.key.export({ format: 'jwk' }))];
  }
  const jwks: unknown =
    source.kind === 'jwks' ? source.jwks : jsonIn((await diagnosis.probe(source.url)).text);
  const published: unknown = Object(jwks)['keys'];
  return Array.isArray(published) ? published.map(nameOf) : [];
}

/** With `prompt=none`, the authorize endpoint answers at once to the `redirectUri` of a client that it knows. */
export async function authorize(diagnosis: Diagnosis): Promise<string> {
  const { tenant } = diagnosis;
  const browser = browserLoginOf(tenant);
  const url = await diagnosis.endpoint('authorize');
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
  if (target !== undefined && !target.href.includes('error')) {
    throw unknown(`the provider redirects to ${target.origin}, not to redirectUri: log in once by a browser`);
  }
  const { status } = reply;
  if (target === undefined && ([0, 404, 405, 429].includes(status) || status >= 500)) {
    throw unusable(reply, tenant.endpointOption('authorize'), url);
  }
  const message = `${shownUrl(url)} refuses the client, or '${browser.redirectUri}' is not registered for it`;
  throw wrong(await suspectsOf(diagnosis, reply.text), message);
}

/** The parameters that the provider sends to `redirectUri`. */
function answer(diagnosis: Diagnosis, response: URLSearchParams): string {
  const error = response.get('error') ?? '';
  const options = OPTIONS_BY_ERROR.get(error);
  if (options?.includes('login.clientId') !== true) {
    diagnosis.proved.add('login.clientId');
  }
  if (error === '' || NOBODY.includes(error)) {
    return 'the authorize endpoint knows login.clientId and answers to login.redirectUri';
  }
  const message = `the authorize endpoint answers ${diagnosis.shown(`${error} (${response.get('error_description')})`)}`;
  throw options === undefined ? unknown(message) : wrong(options, message);
}

/** What the page of a provider refuses. Where it does not say, the token endpoint may tell. */
async function suspectsOf(diagnosis: Diagnosis, page: string): Promise<readonly string[]> {
  if (REFUSES_REDIRECT.test(page)) {
    diagnosis.proved.add('login.clientId');
  } else if (REFUSES_CLIENT.test(page)) {
    return ['login.clientId'];
  } else if (await loginClient(diagnosis).then(Boolean, () => false)) {
    return ['login.redirectUri'];
  }
  return ['login.clientId', 'login.redirectUri'];
}

/** The client of a login. It is refused before its code is looked at (RFC 6749 §5.2). */
export async function loginClient(diagnosis: Diagnosis): Promise<string> {
  const { tenant, context } = diagnosis;
  const pending = pendingLogin(browserLoginOf(tenant));
  const url = await diagnosis.endpoint('token');
  try {
    await diagnosis.ask(tenant.endpointOption('token'), url, (deadline) =>
      context.get(CodeExchange).redeem(tenant, pending, NO_CODE, deadline),
    );
  } catch (error) {
    const oauthError: unknown = Object(error)['oauthError'];
    if (oauthError === 'invalid_request') {
      throw unknown('the token endpoint answers invalid_request, which says nothing of the client');
    }
    if (oauthError !== 'invalid_grant') {
      throw error;
    }
  }
  return `${shownUrl(url)} accepts the login client`;
}

function pendingLogin({ redirectUri, responseType, maxAge }: BrowserLogin): PendingLogin {
  const start = { tenant: '', provider: '', redirectUri, responseType, maxAge, startedAt: 0, former: [] };
  return createPendingLogin(start, '0');
}

/** Browsers send the cookies of a login to `redirectUri`, and back to the page where logins start. */
export function cookies({ tenant, hints }: Diagnosis): string {
  const callback = new URL(browserLoginOf(tenant).redirectUri);
  if (hints.startUrl === undefined) {
    throw notTested('name the page where logins start by startUrl or --start-url');
  }
  const start = parseUrl(hints.startUrl);
  if (start?.protocol !== 'https:' && start?.protocol !== 'http:') {
    throw wrong(['startUrl'], 'it must be an https or http URL', 'Name the page by its whole address.');
  }
  const isDowngrade = start.protocol === 'http:' && callback.protocol === 'https:';
  if (start.hostname !== callback.hostname || isDowngrade) {
    const message = `logins start on ${start.origin} and return to ${callback.origin}: browsers do not send its cookies to the other`;
    const advice = `Start logins on ${callback.origin}, or register another redirectUri.`;
    throw wrong(['login.redirectUri'], message, advice);
  }
  return 'browsers send the cookies of a login to redirectUri, and back to the page where logins start';
}
