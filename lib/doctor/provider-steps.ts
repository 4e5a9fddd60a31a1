import { isRecord } from '../model/json-values.js';
import { keySetOf } from '../oidc/key-set.js';
import { metadataUrl, parseMetadata, publishedUrl, type MetadataUrl } from '../oidc/parse-metadata.js';
import type { KeySource } from '../options/key-source.js';
import type { LoginSettings } from '../options/tenant-settings.js';
import { parseUrl } from '../options/value-schemas.js';
import { shownUrl } from '../problems/address-problems.js';
import { loginOf } from '../tenants/tenant.js';
import { jsonIn, unusable, type Diagnosis } from './diagnosis.js';
import { allWrong, unknown, wrong, type WrongOption } from './finding.js';

/** Members that two equal public keys have in common (RFC 7638 §3.2). */
const KEY_MEMBERS = ['kty', 'crv', 'n', 'e', 'x', 'y', 'k'];

type Json = Readonly<Record<string, unknown>>;

/** How a provider says that it has no such issuer. Keycloak: `Realm does not exist`; Entra ID: `Tenant 'x' not found`. */
const NO_SUCH_ISSUER = /(?:realm|tenant|issuer)\b.{0,80}\b(?:not|unknown|invalid)/i;

/** The options that the metadata of the provider contradicts (Discovery 1.0 §3). */
export async function metadata(diagnosis: Diagnosis): Promise<string> {
  const { tenant } = diagnosis;
  const login = loginOf(tenant);
  const atIssuer = await textAt(diagnosis, login.issuer);
  const own = metadataIn(atIssuer);
  const body = own ?? metadataIn(await textAt(diagnosis, tenant.authUrl));
  const wrongIssuer = issuerProblems(diagnosis, login, own, body);
  if (own === undefined && wrongIssuer.length === 0 && (login.discovery || NO_SUCH_ISSUER.test(atIssuer))) {
    wrongIssuer.push(['login.issuer', `there is no metadata at ${shownUrl(metadataUrl(login.issuer))}`]);
  }
  // Nothing is compared with the metadata of a wrong issuer.
  const isOfOther = own !== undefined && wrongIssuer.length > 0;
  const read = parseMetadata(isOfOther ? undefined : body, String(body?.['issuer']));
  const urlOf = (name: MetadataUrl) =>
    'urls' in read ? publishedUrl(read, name, tenant.key, diagnosis.allowedOrigins) : undefined;
  diagnosis.published =
    'urls' in read
      ? {
          authorize: urlOf('authorize'),
          token: urlOf('token'),
          userinfo: urlOf('userinfo'),
          keys: urlOf('keys'),
        }
      : undefined;
  const found = [
    ...wrongIssuer,
    ...userinfoProblems(diagnosis),
    ...(isOfOther ? [] : listProblems(diagnosis, login, body)),
    ...audienceProblems(login),
  ];
  if (found.length > 0) {
    throw allWrong(found);
  }
  if (body === undefined) {
    throw unknown('the provider publishes no metadata that proves issuer, endpoints and algorithms');
  }
  return 'issuer, endpoints and algorithms are those of the metadata; only a login proves the audience';
}

/** What is at the address of the metadata of an issuer, which need not be an address (OIDC Core §2). */
async function textAt(diagnosis: Diagnosis, issuer: string): Promise<string> {
  const isAddress = parseUrl(issuer)?.protocol.startsWith('http') === true;
  return isAddress ? (await diagnosis.probe(metadataUrl(issuer))).text : '';
}

function metadataIn(text: string): Json | undefined {
  const json = jsonIn(text);
  return isRecord(json) && typeof json['issuer'] === 'string' ? json : undefined;
}

/**
 * What contradicts the issuer: its metadata, the `iss` of the API's access token, and a token endpoint of another issuer. One
 * provider may have many: the realms of Keycloak, the tenants of Entra ID.
 */
function issuerProblems(
  diagnosis: Diagnosis,
  { issuer }: LoginSettings,
  own: Json | undefined,
  body: Json | undefined,
): WrongOption[] {
  const { tenant, accessToken } = diagnosis;
  const published = body?.['issuer'];
  const tokenEndpoint = own?.['token_endpoint'];
  // Nothing is trusted because of it.
  const claims = jsonIn(Buffer.from(accessToken.split('.')[1] ?? '', 'base64url').toString());
  const tokenIssuer: unknown = Object(claims)['iss'];
  const differs = (suspects: string, what: string, found: unknown, expected: string): WrongOption[] => [
    [suspects, `${what} '${diagnosis.shown(String(found))}', not '${diagnosis.shown(expected)}'`],
  ];
  if (published !== undefined && published !== issuer && (own !== undefined || tokenIssuer !== issuer)) {
    return differs('login.issuer', 'the provider is the issuer', published, issuer);
  }
  if (tokenIssuer === issuer || tokenEndpoint === tenant.tokenUrl || diagnosis.isTokenRefused) {
    return [];
  }
  if (tokenIssuer !== undefined) {
    return differs('login.issuer', 'the access token of the API is from the issuer', tokenIssuer, issuer);
  }
  if (tokenEndpoint === undefined || tenant.settings.endpoints?.token === undefined) {
    return [];
  }
  const suspects = accessToken === '' ? 'login.issuer, endpoints.token' : 'login.issuer';
  return differs(suspects, 'the token endpoint of the issuer is', tokenEndpoint, tenant.tokenUrl);
}

/** Of the endpoints, only that of userinfo is not asked by a later step. */
function userinfoProblems(diagnosis: Diagnosis): WrongOption[] {
  const { tenant, published } = diagnosis;
  const url = published?.userinfo;
  const own = tenant.settings.endpoints?.userinfo;
  return typeof url !== 'string' || own === undefined || url === own
    ? []
    : [
        [
          'endpoints.userinfo',
          `the userinfo endpoint of the provider is ${diagnosis.shown(url)}, not ${own}`,
        ],
      ];
}

function listProblems(diagnosis: Diagnosis, login: LoginSettings, body: Json | undefined): WrongOption[] {
  const lists = [
    ['login.algorithms', 'id_token_signing_alg_values_supported', login.algorithms],
    ['login.scope', 'scopes_supported', login.scope.split(' ').filter((name) => name !== 'openid')],
  ] as const;
  return lists.flatMap(([option, member, wanted]): WrongOption[] => {
    const offered: unknown = body?.[member];
    return Array.isArray(offered) && wanted.length > 0 && !wanted.some((value) => offered.includes(value))
      ? [[option, `${member}: ${diagnosis.shown(offered.join(', '))}`]]
      : [];
  });
}

/** The audience of an ID token contains its client (OIDC Core §2). */
function audienceProblems({ audience, clientId }: LoginSettings): WrongOption[] {
  const ofIdToken = typeof audience === 'string' ? audience : audience?.idToken;
  return ofIdToken === undefined || clientId === undefined || ofIdToken === clientId
    ? []
    : [['login.audience', `the audience of ID tokens is login.clientId '${clientId}', not '${ofIdToken}'`]];
}

export async function keys(diagnosis: Diagnosis): Promise<string> {
  const { tenant, published } = diagnosis;
  const source: KeySource = loginOf(tenant).keys ?? { kind: 'url', url: diagnosis.urlOf('keys') };
  const own = await keysOf(diagnosis, source);
  if (source.kind === 'url' && own.length === 0) {
    throw unusable(await diagnosis.probe(source.url), tenant.keysOption, source.url);
  }
  const url = published?.keys;
  const current = typeof url === 'string' ? await keysOf(diagnosis, { kind: 'url', url }) : [];
  if (current.length === 0 && source.kind !== 'url') {
    throw unknown('the provider publishes no keys to compare with');
  }
  if (current.length > 0 && !current.some((one) => own.some((other) => isSame(one, other)))) {
    const message =
      'the provider publishes none of these keys, which it may have rotated: a JWKS URL follows that';
    throw wrong('login.keys', message);
  }
  return 'the provider publishes such a key; a login only proves that it signs with it';
}

/** The keys of a source; of a URL none where none of them is usable. */
async function keysOf(diagnosis: Diagnosis, source: KeySource): Promise<Json[]> {
  if (source.kind === 'pem') {
    return [{ ...source.key.export({ format: 'jwk' }) }];
  }
  const jwks: unknown =
    source.kind === 'url' ? jsonIn((await diagnosis.probe(source.url)).text) : source.jwks;
  const isUsable = await keySetOf(jwks).then(Boolean, () => false);
  const list: unknown = Object(jwks)['keys'];
  return isUsable && Array.isArray(list) ? list.filter(isRecord) : [];
}

function isSame(one: Json, other: Json): boolean {
  const [first, second] = [one, other].map((key) => JSON.stringify(key, KEY_MEMBERS));
  const isNamedOther = one['kid'] !== undefined && other['kid'] !== undefined && one['kid'] !== other['kid'];
  return first === second && !isNamedOther;
}
