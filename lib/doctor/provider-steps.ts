import { isRecord } from '../model/json-values.js';
import { keySetOf } from '../oidc/key-set.js';
import { parseMetadata } from '../oidc/parse-metadata.js';
import type { KeySource } from '../options/key-source.js';
import { loginOf } from '../tenants/tenant.js';
import { firstUrls } from './connection-steps.js';
import { unusable, type Examination } from './examination.js';
import { allWrong, unknown, wrong } from './finding.js';

/** Members that two equal public keys have in common (RFC 7638 §3.2). */
const KEY_MEMBERS = ['kty', 'crv', 'n', 'e', 'x', 'y', 'k'];

type Json = Readonly<Record<string, unknown>>;

/** The options that the metadata of the provider contradicts (Discovery 1.0 §3). */
export async function metadata(examination: Examination): Promise<string> {
  const { tenant, rules } = examination;
  const login = loginOf(tenant);
  const own = await documentAt(examination, 'login.issuer');
  const body = own ?? (await documentAt(examination, 'authUrl'));
  const issuer = body?.['issuer'];
  if (typeof issuer !== 'string') {
    const message = 'the provider publishes no metadata that proves issuer, endpoints and algorithms';
    throw login.discovery ? wrong('login.issuer', message) : unknown(message);
  }
  const read = parseMetadata(body, issuer, rules.allowedOrigins);
  examination.published = 'urls' in read ? read.urls : undefined;
  const found: [option: string, message: string][] = [];
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

/** What the address of an option answers first. */
async function documentAt(examination: Examination, option: string): Promise<Json | undefined> {
  const url = firstUrls(examination).get(option);
  const { json } = url === undefined ? {} : await examination.first(url);
  return isRecord(json) ? json : undefined;
}

/** The provider publishes one of the configured keys. */
export async function keys(examination: Examination): Promise<string> {
  const { keys: source } = loginOf(examination.tenant);
  const url = source === undefined ? examination.discovered('keys') : examination.published?.keys;
  const option = source === undefined ? 'login.discovery' : undefined;
  const published = typeof url === 'string' ? await keysAt(examination, url, option) : [];
  const own = source === undefined ? published : await configuredKeys(examination, source);
  if (published.length === 0 && source?.kind !== 'url') {
    throw unknown('the provider publishes no keys to compare with');
  }
  if (published.length > 0 && !published.some((one) => own.some((other) => isSame(one, other)))) {
    throw wrong(
      'login.keys',
      'the provider publishes none of these keys, which it may have rotated: a JWKS URL follows that',
    );
  }
  return 'the provider publishes such a key; a login only proves that it signs with it';
}

async function configuredKeys(examination: Examination, source: KeySource): Promise<Json[]> {
  switch (source.kind) {
    case 'url':
      return keysAt(examination, source.url, 'login.keys');
    case 'pem':
      return [{ ...source.key.export({ format: 'jwk' }) }];
    case 'jwks':
      return source.jwks.keys.map((key) => ({ ...key }));
  }
}

/**
 * The keys at an address; none where none is usable.
 *
 * @throws {Unproved} then, where an option requires them
 */
async function keysAt(examination: Examination, url: string, option?: string): Promise<Json[]> {
  const reply = await examination.first(url);
  try {
    await keySetOf(reply.status === 200 ? reply.json : undefined);
  } catch {
    if (option !== undefined) {
      throw unusable(reply, option, examination.shown(url));
    }
    return [];
  }
  const list: unknown = Object(reply.json)['keys'];
  return Array.isArray(list) ? list.filter(isRecord) : [];
}

function isSame(one: Json, other: Json): boolean {
  const [first, second] = [one, other].map((key) => JSON.stringify(key, KEY_MEMBERS));
  const isNamedOther = one['kid'] !== undefined && other['kid'] !== undefined && one['kid'] !== other['kid'];
  return first === second && !isNamedOther;
}
