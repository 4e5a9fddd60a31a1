import { authorizationUrl } from '../login/exhibitor.strategy.js';
import { createPendingLogin } from '../login/pending-login.js';
import { isRecord } from '../model/json-values.js';
import { keySetOf } from '../oidc/key-set.js';
import { metadataUrl, parseMetadata, urlsFor } from '../oidc/parse-metadata.js';
import type { KeySource } from '../options/key-source.js';
import { parseUrl } from '../options/value-schemas.js';
import { browserLoginOf, isHybrid, loginOf } from '../tenants/tenant.js';
import { loginClient } from './client-steps.js';
import { isAbsent, unusable, type Examination } from './examination.js';
import { allWrong, notTested, unknown, wrong, type WrongOption } from './finding.js';

/** Members that two equal public keys have in common (RFC 7638 §3.2). */
const KEY_MEMBERS = ['kty', 'crv', 'n', 'e', 'x', 'y', 'k'];

type Json = Readonly<Record<string, unknown>>;

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

/** The options that the metadata of the provider contradicts (Discovery 1.0 §3). */
export async function metadata(examination: Examination): Promise<string> {
  const { tenant, rules } = examination;
  const login = loginOf(tenant);
  const own = await documentAt(examination, login.issuer);
  const body = own ?? (await documentAt(examination, tenant.authUrl));
  const issuer = body?.['issuer'];
  if (typeof issuer !== 'string') {
    const message = 'the provider publishes no metadata that proves issuer, endpoints and algorithms';
    throw login.discovery ? wrong('login.issuer', message) : unknown(message);
  }
  const read = parseMetadata(body, issuer);
  examination.published = 'urls' in read ? urlsFor(read, tenant.key, rules.allowedOrigins) : undefined;
  const found: WrongOption[] = [];
  if (issuer !== login.issuer) {
    // A token proves `authUrl`.
    const options = own !== undefined || examination.token !== '' ? 'login.issuer' : 'login.issuer, authUrl';
    const message = `the provider is the issuer '${examination.shown(issuer)}', not '${examination.shown(login.issuer)}'`;
    found.push([options, message]);
  }
  // The steps `token` and `login` test the token endpoint. Without logins in the browser there is no other.
  for (const name of login.redirectUri === undefined ? [] : (['authorize', 'userinfo'] as const)) {
    const option = tenant.endpointOption(name);
    const url = examination.published?.[name];
    const used = tenant.settings.endpoints?.[name] ?? tenant.defaultEndpoint(name);
    if (typeof url === 'object') {
      found.push([option, `expected ${url.expected}, received ${examination.shown(url.received)}`]);
    } else if (option !== 'login.discovery' && url !== undefined && url !== used) {
      found.push([option, `its ${name} endpoint is ${examination.shown(url)}, not ${used}`]);
    }
  }
  const lists = [
    ['login.algorithms', 'id_token_signing_alg_values_supported', login.algorithms],
    ['login.scope', 'scopes_supported', login.scope.split(' ').filter((name) => name !== 'openid')],
  ] as const;
  for (const [option, member, wanted] of lists) {
    const offered: unknown = body?.[member];
    if (Array.isArray(offered) && wanted.length > 0 && !wanted.some((value) => offered.includes(value))) {
      found.push([option, `${member}: ${examination.shown(offered.join(', '))}`]);
    }
  }
  if (found.length > 0) {
    throw allWrong(found);
  }
  return 'issuer, endpoints and algorithms are those of the metadata; only a login proves the audience';
}

/** The metadata of an issuer, which need not be an address (OIDC Core §2). */
async function documentAt(examination: Examination, issuer: string): Promise<Json | undefined> {
  const isAddress = parseUrl(issuer)?.protocol.startsWith('http') === true;
  const json = isAddress ? (await examination.ask(metadataUrl(issuer))).json : undefined;
  return isRecord(json) ? json : undefined;
}

export async function keys(examination: Examination): Promise<string> {
  const { tenant } = examination;
  const source: KeySource = loginOf(tenant).keys ?? { kind: 'url', url: examination.urlOf('keys') };
  const own = await keysOf(examination, source);
  if (source.kind === 'url' && own.length === 0) {
    throw unusable(await examination.ask(source.url), tenant.keysOption, examination.shown(source.url));
  }
  const url = examination.published?.keys;
  const published = typeof url === 'string' ? await keysOf(examination, { kind: 'url', url }) : [];
  if (published.length === 0 && source.kind !== 'url') {
    throw unknown('the provider publishes no keys to compare with');
  }
  if (published.length > 0 && !published.some((one) => own.some((other) => isSame(one, other)))) {
    const message =
      'the provider publishes none of these keys, which it may have rotated: a JWKS URL follows that';
    throw wrong('login.keys', message);
  }
  return 'the provider publishes such a key; a login only proves that it signs with it';
}

/** The keys of a source; of a URL none where none of them is usable. */
async function keysOf(examination: Examination, source: KeySource): Promise<Json[]> {
  if (source.kind === 'pem') {
    return [{ ...source.key.export({ format: 'jwk' }) }];
  }
  const { json } = source.kind === 'url' ? await examination.ask(source.url) : { json: source.jwks };
  const isUsable = await keySetOf(json).then(Boolean, () => false);
  const list: unknown = Object(json)['keys'];
  return isUsable && Array.isArray(list) ? list.filter(isRecord) : [];
}

function isSame(one: Json, other: Json): boolean {
  const [first, second] = [one, other].map((key) => JSON.stringify(key, KEY_MEMBERS));
  const isNamedOther = one['kid'] !== undefined && other['kid'] !== undefined && one['kid'] !== other['kid'];
  return first === second && !isNamedOther;
}

/** With `prompt=none`, the authorize endpoint answers at once to the `redirectUri` of a client that it knows. */
export async function authorize(examination: Examination): Promise<string> {
  const login = browserLoginOf(examination.tenant);
  const url = examination.urlOf('authorize');
  const { redirectUri, responseType, maxAge } = login;
  const start = { tenant: '', provider: '', redirectUri, responseType, maxAge, startedAt: 0, former: [] };
  const address = new URL(
    await authorizationUrl(login, createPendingLogin(start, '0'), url, { prompt: 'none' }),
  );
  // Only a redirect can be read without a browser.
  address.searchParams.delete('response_mode');
  const reply = await examination.ask(address.href, { accept: 'text/html' });
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
  if (target === undefined && isAbsent(reply)) {
    throw unusable(reply, examination.tenant.endpointOption('authorize'), 'the authorize endpoint');
  }
  const message = `the authorize endpoint refuses this login: '${redirectUri}' must be registered for the client, character by character`;
  throw wrong(await suspectsOf(examination, reply.text), message);
}

/** The parameters that the provider sends to `redirectUri`. */
function answer(examination: Examination, response: URLSearchParams): string {
  const error = response.get('error');
  if (error === null || NOBODY.includes(error)) {
    return 'the authorize endpoint knows login.clientId and answers to login.redirectUri';
  }
  const why = examination.shown(`${error} (${response.get('error_description')})`, 300);
  const option = OPTIONS_BY_ERROR.get(error);
  const message = `the authorize endpoint answers ${why}`;
  throw option === undefined ? unknown(message) : wrong(option, message);
}

/** What the page of a provider refuses. Where it does not say, the token endpoint may tell. */
async function suspectsOf(examination: Examination, page: string): Promise<string> {
  if (REFUSES_REDIRECT.test(page)) {
    examination.knowsClient = true;
  } else if (REFUSES_CLIENT.test(page)) {
    return 'login.clientId';
  }
  const isKnown = examination.knowsClient || (await loginClient(examination).then(Boolean, () => false));
  return isKnown ? 'login.redirectUri' : 'login.clientId, login.redirectUri';
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
