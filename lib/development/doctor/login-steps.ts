import { CodeExchange } from '../../login/code-exchange.service.js';
import { authorizationUrl } from '../../login/authorization-request.js';
import { createProof, secretsOf, type LoginRequest } from '../../login/started-login.js';
import { described } from '../../config/problems/claim-text.js';
import { addressOption } from '../../config/problems/partner-problems.js';
import { keySetOf } from '../../oidc/key-set.js';
import { metadataUrl, OpenIdProvider } from '../../oidc/openid-provider.service.js';
import { unverified } from '../../oidc/verify-signature.js';
import { parseUrl } from '../../model/urls.js';
import { isAllowedUrl } from '../../config/value-schemas.js';
import { browserLoginOf, loginOf, Tenant } from '../../config/tenant.js';
import { refusesSecret } from '../../tokens/client-authentication.js';
import type { Call } from '../../call/call.js';
import { prove, Unproved, type Diagnosis, type Probed } from './diagnosis.js';

/** Sent as a code, and as a secret. */
const MADE_UP = 'nestjs-exhibitor-doctor-asks-whether-you-know-this-client';

/** How a provider says that it has no such issuer. Keycloak: `Realm does not exist`; Entra ID: `Tenant 'x' not found`. */
const NO_SUCH_ISSUER = /(?:realm|tenant|issuer)\b.{0,80}\b(?:not|unknown|invalid)/i;

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
 * What contradicts the issuer. One provider may have many: the realms of Keycloak, the tenants of Entra ID. It is proved where the access
 * token or the token endpoint is its own. The first row that holds; an option is in doubt where an earlier finding names it, also among
 * others:
 *
 * | condition                                                                        | where                                                      | options                           |
 * | -------------------------------------------------------------------------------- | ---------------------------------------------------------- | --------------------------------- |
 * | the metadata of the issuer names another issuer                                  | always                                                     | `login.issuer`                    |
 * | it names none, and the metadata of `authUrl` names another issuer                | if not proved, and `authUrl` not in doubt                  | `login.issuer`                    |
 * | the access token of the API is from another issuer                               | if not proved, and the option of its endpoint not in doubt | `login.issuer`                    |
 * | the metadata of the issuer has another URL than `endpoints.token`                | if not proved                                              | `login.issuer`, `endpoints.token` |
 * | it names no issuer, but discovery needs it, or the reply says that there is none | always                                                     | `login.issuer`                    |
 * | it names no issuer                                                               | always                                                     | none                              |
 *
 * In the last two rows, a 429 or 5xx names no option ({@link prove}).
 */
export async function metadata(diagnosis: Diagnosis): Promise<string> {
  const { tenant, accessToken, findings } = diagnosis;
  const { issuer, discovery } = loginOf(tenant);
  const reply = await diagnosis.probe(metadataUrl(issuer));
  const { json: ofAuthUrl } = await diagnosis.probe(metadataUrl(tenant.authUrl));
  const { issuer: published, token_endpoint: tokenUrl } = reply.json;
  const { token: ownTokenUrl } = tenant.settings.endpoints ?? {};
  const { iss } = unverified(accessToken, 'claims');
  /** What was not found contradicts nothing. */
  const agree = (what: string, found: unknown, expected: unknown, ...also: string[]): void => {
    const difference = `${what} '${diagnosis.shown(described(found))}', not '${expected}'`;
    prove(found === undefined || found === expected, difference, 'login.issuer', ...also);
  };
  agree('the provider is the issuer', published, issuer);
  const isProved = iss === issuer || tokenUrl === tenant.endpointUrl('token');
  // What may come from a wrong address says nothing of the issuer.
  const isInDoubt = (name: string): boolean =>
    findings.some(({ option }) => option?.split(', ').includes(name));
  if (!isProved && !isInDoubt('authUrl')) {
    agree('the provider is the issuer', published ?? ofAuthUrl['issuer'], issuer);
  }
  if (!isProved && !isInDoubt(addressOption(tenant, 'token'))) {
    agree('the access token of the API is from the issuer', iss, issuer);
  }
  if (!isProved && ownTokenUrl !== undefined) {
    agree('the token endpoint of the issuer is', tokenUrl, ownTokenUrl, 'endpoints.token');
  }
  const message = `no metadata proves the issuer: ${reply.message}`;
  const suspects = discovery || NO_SUCH_ISSUER.test(reply.text) ? ['login.issuer'] : [];
  prove(published !== undefined, { ...reply, message }, ...suspects);
  return 'nothing that the provider publishes contradicts the issuer';
}

/** Step `keys`. */
export async function publishedKey(diagnosis: Diagnosis, call: Call): Promise<string> {
  const { tenant, context, options } = diagnosis;
  const { issuer } = loginOf(tenant);
  const { keys } = await context.get(OpenIdProvider).keysOf(tenant, call);
  diagnosis.needs('metadata');
  const url = described((await diagnosis.probe(metadataUrl(issuer))).json['jwks_uri']);
  const isAllowed = isAllowedUrl(url, tenant.key, options.settings.allowedOrigins);
  prove(isAllowed && parseUrl(url) !== undefined, 'the provider publishes no keys to compare with');
  const { json, message } = await diagnosis.probe(url);
  const published = await keySetOf(json);
  prove(published !== undefined, `no keys of the provider to compare with: ${diagnosis.shown(message)}`);
  const isPublished = published.keys.some((key) => keys.some((own) => own.equals(key)));
  const rotated = 'the provider publishes none of these keys. If it has rotated them: a JWKS URL follows';
  prove(isPublished, rotated, 'login.keys');
  return 'the provider publishes such a key; a login only proves that it signs with it';
}

/** With `prompt=none`, the authorize endpoint answers at once to the `redirectUri` of a client that it knows. */
export async function authorize(diagnosis: Diagnosis, call: Call): Promise<string> {
  const { tenant, context } = diagnosis;
  const request = startLogin(diagnosis, 'authorize');
  const login = browserLoginOf(tenant);
  const url = await context.get(OpenIdProvider).urlOf(tenant, 'authorize', call);
  const address = new URL(await authorizationUrl(login, request, url, { prompt: 'none' }));
  // Only a redirect can be read without a browser.
  address.searchParams.delete('response_mode');
  const reply = await diagnosis.probe(address.href, { accept: 'text/html' });
  const { location = '' } = reply.headers;
  const target = location === '' ? undefined : parseUrl(location, url);
  const callback = new URL(login.redirectUri);
  if (target?.origin === callback.origin && target.pathname === callback.pathname) {
    return redirected(diagnosis, new URLSearchParams(`${target.search}&${target.hash.slice(1)}`));
  }
  // Some providers redirect to the page that says what they refuse.
  const isPage = target === undefined || target.href.includes('error');
  prove(isPage, `the provider redirects to ${target?.origin}, not to redirectUri: log in once by a browser`);
  return refused(diagnosis, login.redirectUri, reply, call);
}

/** The provider answers to `redirectUri`: it knows the client, unless its error is about the client. */
function redirected(diagnosis: Diagnosis, parameters: URLSearchParams): string {
  const error = parameters.get('error') ?? '';
  const options = OPTIONS_BY_ERROR.get(error) ?? [];
  if (!options.includes('login.clientId')) {
    diagnosis.proved.add('login.clientId');
  }
  const said = diagnosis.shown(`${error} (${parameters.get('error_description')})`);
  // Nobody is logged in, so that a right request is refused (OIDC Core §3.1.2.6).
  const isAccepted = /^(?:(?:login|interaction|consent|account_selection)_required)?$/.test(error);
  prove(isAccepted, `the authorize endpoint answers ${said}`, ...options);
  return 'the authorize endpoint knows login.clientId and answers to login.redirectUri';
}

/**
 * The provider shows a page for people instead. A `clientId` that it knows may be that of another client, which has neither this
 * `redirectUri` nor this secret: the token endpoint tells ({@link checkClient}). The first row that holds:
 *
 * | the page                      | the token endpoint        | finding               | options                               |
 * | ----------------------------- | ------------------------- | --------------------- | ------------------------------------- |
 * | has no status from 200 to 403 | is not asked              | the address is wrong  | {@link addressOption}                 |
 * | refuses the client alone      | is not asked              | the client is unknown | `login.clientId`                      |
 * | any other                     | accepts this secret alone | the client is right   | `login.redirectUri`                   |
 * | refuses the `redirectUri`     | does not tell             | the client is known   | `login.redirectUri`                   |
 * | any other                     | any other                 | either may be wrong   | `login.clientId`, `login.redirectUri` |
 *
 * In the first row, a 429 or 5xx names no option ({@link prove}).
 */
async function refused(diagnosis: Diagnosis, redirectUri: string, page: Probed, call: Call): Promise<never> {
  prove(page.status >= 200 && page.status <= 403, page, addressOption(diagnosis.tenant, 'authorize'));
  const message = `${page.message}: it refuses the client, or '${redirectUri}' is not registered for it`;
  const refusesRedirect = REFUSES_REDIRECT.test(page.text);
  const refusesClient = !refusesRedirect && REFUSES_CLIENT.test(page.text);
  prove(!refusesClient, message, 'login.clientId');
  const client = await checkClient(diagnosis, call);
  if (client === 'accepted' || (client === 'unknown' && refusesRedirect)) {
    diagnosis.proved.add('login.clientId');
    throw new Unproved(message, ['login.redirectUri']);
  }
  const doubt = client === 'refused' ? 'the secret is refused too' : 'any secret is accepted';
  const note = refusesRedirect ? `. It is known, but ${doubt}: it may be another client` : '';
  throw new Unproved(message + note, ['login.clientId', 'login.redirectUri']);
}

/** `unknown`: no reply tells whether the client is right. */
type SecretCheck = 'accepted' | 'refused' | 'unknown';

/** Whether the token endpoint accepts the login client. `any secret`: also with a made-up one, as Keycloak does for a public client. */
async function checkClient(diagnosis: Diagnosis, call: Call): Promise<SecretCheck | 'any secret'> {
  const own = await checkSecret(diagnosis, diagnosis.tenant, call);
  if (own !== 'accepted') {
    return own;
  }
  const madeUp = await checkSecret(diagnosis, withMadeUpSecret(diagnosis.tenant), call);
  return madeUp === 'accepted' ? 'any secret' : 'accepted';
}

function checkSecret(diagnosis: Diagnosis, tenant: Tenant, call: Call): Promise<SecretCheck> {
  return redeem(diagnosis, tenant, call).then(
    () => 'accepted',
    (error: unknown) => (refusesSecret(Object(error)['oauthError']) ? 'refused' : 'unknown'),
  );
}

function withMadeUpSecret(tenant: Tenant): Tenant {
  const login = { ...loginOf(tenant), clientSecret: MADE_UP, clientAuth: 'post' as const };
  return new Tenant(tenant.key, { ...tenant.settings, login }, tenant.http, tenant.stateKey);
}

/** Step `login`. It proves the secret of the login client. */
export async function loginClient(diagnosis: Diagnosis, call: Call): Promise<string> {
  const { tenant, seen } = diagnosis;
  await redeem(diagnosis, tenant, call);
  return `${seen.address} accepts the login client`;
}

/** Sends a made-up code. A provider looks at the client first (RFC 6749 §5.2): if it refuses the code, it accepts the client. */
async function redeem(diagnosis: Diagnosis, tenant: Tenant, call: Call): Promise<void> {
  const { verifier } = startLogin(diagnosis, 'token');
  try {
    await diagnosis.context.get(CodeExchange).redeem(tenant, { code: MADE_UP, verifier }, call);
  } catch (error) {
    if (Object(error)['oauthError'] !== 'invalid_grant') {
      throw error;
    }
  }
}

/** A login that uses this endpoint. If the metadata is that of another issuer, its endpoints say nothing of this client. */
function startLogin(diagnosis: Diagnosis, endpoint: 'authorize' | 'token'): LoginRequest {
  const { tenant } = diagnosis;
  if (tenant.isDiscovered(endpoint)) {
    diagnosis.needs('metadata');
  }
  return { ...secretsOf(createProof()), state: createProof(), maxAge: browserLoginOf(tenant).maxAge };
}

/** Cookies of a login are those of one origin. */
export async function cookies({ tenant, hints }: Diagnosis): Promise<string> {
  const { startUrl } = hints;
  const { origin } = new URL(browserLoginOf(tenant).redirectUri);
  prove(startUrl !== undefined, 'not tested: name the page where logins start by startUrl or --start-url');
  const message = `a login that starts on ${startUrl} may not have its cookies on ${origin}, where it ends: use one origin`;
  prove(parseUrl(startUrl)?.origin === origin, message, 'login.redirectUri');
  return 'browsers send the cookies of a login to redirectUri, and back to the page where logins start';
}
