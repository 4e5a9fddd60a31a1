import { CodeExchange } from '../login/code-exchange.service.js';
import { authorizationUrl } from '../login/exhibitor.strategy.js';
import { createPendingLogin, type PendingLogin } from '../login/pending-login.js';
import { metadataUrl, OpenIdProvider } from '../oidc/openid-provider.service.js';
import type { KeySource } from '../options/key-source.js';
import { isAllowedUrl, parseUrl } from '../options/value-schemas.js';
import { shownUrl } from '../problems/address-problems.js';
import { browserLoginOf, loginOf, type BrowserLogin } from '../tenants/tenant.js';
import { jsonIn, unusable, type Diagnosis } from './diagnosis.js';
import { notTested, Unproved } from './finding.js';

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
  const { tenant, claims, findings, checked } = diagnosis;
  const { issuer, discovery } = loginOf(tenant);
  const url = metadataUrl(issuer);
  const { text } = await diagnosis.probe(url);
  const json = jsonIn(text);
  const own = json?.['issuer'] === undefined ? undefined : json;
  const other = jsonIn((await diagnosis.probe(metadataUrl(tenant.authUrl))).text);
  const endpoint = own?.['token_endpoint'];
  const isOfOther = findings.some(({ option }) => option?.split(', ').includes('authUrl'));
  const isProved = claims?.['iss'] === issuer || endpoint === tenant.tokenUrl || isOfOther;
  const differs = (what: string, found: unknown, expected: string, ...options: string[]): void => {
    if (found !== undefined && found !== expected) {
      const message = `${what} '${diagnosis.shown(found)}', not '${diagnosis.shown(expected)}'`;
      throw new Unproved(message, ['login.issuer', ...options]);
    }
  };
  differs('the provider is the issuer', own?.['issuer'], issuer);
  if (!isProved) {
    differs('the provider is the issuer', (own ?? other)?.['issuer'], issuer);
    differs('the access token of the API is from the issuer', claims?.['iss'], issuer);
  }
  if (!isProved && tenant.settings.endpoints?.token !== undefined) {
    differs('the token endpoint of the issuer is', endpoint, tenant.tokenUrl, 'endpoints.token');
  }
  if (own === undefined && (discovery || NO_SUCH_ISSUER.test(text))) {
    throw new Unproved(`there is no metadata at ${shownUrl(url)}`, ['login.issuer']);
  }
  if (own === undefined) {
    throw new Unproved('the provider publishes no metadata that proves the issuer');
  }
  const keys = String(own['jwks_uri'] ?? '');
  const isAllowed = isAllowedUrl(keys, tenant.key, checked.settings.allowedOrigins);
  diagnosis.publishedKeys = isAllowed ? keys : '';
  return 'nothing that the provider publishes contradicts the issuer';
}

/** The keys can be used, and the provider publishes one of them. */
export async function publishedKey(diagnosis: Diagnosis): Promise<string> {
  const { tenant, context, publishedKeys } = diagnosis;
  const { keys: source = { kind: 'url', url: publishedKeys } } = loginOf(tenant);
  const url = source.kind === 'url' ? source.url : publishedKeys;
  await diagnosis.ask(tenant.keysOption, url || tenant.authUrl, (deadline) =>
    context.get(OpenIdProvider).keysOf(tenant, deadline),
  );
  const ours = await namesOf(diagnosis, source);
  const published = await namesOf(diagnosis, { kind: 'url', url: publishedKeys || url });
  if (published.length === 0) {
    throw new Unproved('the provider publishes no keys to compare with');
  }
  if (!published.some((key) => ours.includes(key))) {
    const message = 'the provider publishes none of these keys. If it has rotated them: a JWKS URL follows';
    throw new Unproved(message, ['login.keys']);
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
    const message = `the provider redirects to ${target.origin}, not to redirectUri: log in once by a browser`;
    throw new Unproved(message);
  }
  // Pages for people are answered with 200, 400, 401 or 403.
  if (target === undefined && (reply.status < 200 || reply.status > 403)) {
    throw unusable(reply, tenant.endpointOption('authorize'), url);
  }
  const message = `${shownUrl(url)} refuses the client, or '${browser.redirectUri}' is not registered for it`;
  throw new Unproved(message, await suspectsOf(diagnosis, reply.text));
}

/** The parameters that the provider sends to `redirectUri`. */
function answer(diagnosis: Diagnosis, response: URLSearchParams): string {
  const error = response.get('error') ?? '';
  const options = OPTIONS_BY_ERROR.get(error) ?? [];
  if (!options.includes('login.clientId')) {
    diagnosis.proved.add('login.clientId');
  }
  if (error === '' || NOBODY.includes(error)) {
    return 'the authorize endpoint knows login.clientId and answers to login.redirectUri';
  }
  const answered = diagnosis.shown(`${error} (${response.get('error_description')})`);
  throw new Unproved(`the authorize endpoint answers ${answered}`, options);
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
  await diagnosis.ask(tenant.endpointOption('token'), url, async (deadline) => {
    try {
      await context.get(CodeExchange).redeem(tenant, pending, NO_CODE, deadline);
    } catch (error) {
      if (Object(error)['oauthError'] !== 'invalid_grant') {
        throw error;
      }
    }
  });
  return `${shownUrl(url)} accepts the login client`;
}

function pendingLogin({ redirectUri, responseType, maxAge }: BrowserLogin): PendingLogin {
  const start = { tenant: '', provider: '', redirectUri, responseType, maxAge, former: [] };
  return createPendingLogin(start, '0');
}

/** Cookies of a login are those of one origin. */
export function cookies({ tenant, hints }: Diagnosis): string {
  const { startUrl } = hints;
  const { origin } = new URL(browserLoginOf(tenant).redirectUri);
  if (startUrl === undefined) {
    throw notTested('name the page where logins start by startUrl or --start-url');
  }
  if (parseUrl(startUrl)?.origin !== origin) {
    const message = `logins start on ${startUrl} and return to ${origin}: browsers do not send its cookies to the other`;
    const advice = `Start logins on ${origin}, or register another redirectUri.`;
    throw new Unproved(message, ['login.redirectUri'], advice);
  }
  return 'browsers send the cookies of a login to redirectUri, and back to the page where logins start';
}
