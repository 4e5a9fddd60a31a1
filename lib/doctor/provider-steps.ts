import { createPublicKey, type KeyObject } from 'node:crypto';
import { isRecord } from '../model/json-values.js';
import { keySetOf } from '../oidc/key-set.js';
import { parseMetadata } from '../oidc/parse-metadata.js';
import { loginOf } from '../tenants/tenant.js';
import { firstReply } from './connection-steps.js';
import { unusable, type Examination } from './examination.js';
import { ok, unknown, wrong, wrongOr, type Verdict } from './finding.interface.js';

/** The options that the metadata of the provider contradicts (Discovery 1.0 §3). */
export async function metadata(examination: Examination): Promise<Verdict> {
  const { tenant, token } = examination;
  const login = loginOf(tenant);
  const own = (await firstReply(examination, 'login.issuer'))?.json;
  const body = isRecord(own) ? own : (await firstReply(examination, 'authUrl'))?.json;
  if (!isRecord(body) || typeof body['issuer'] !== 'string') {
    const message = 'the provider publishes no metadata that proves issuer, endpoints and algorithms';
    return login.discovery ? wrong('login.issuer', message) : unknown(message);
  }
  const { issuer } = body;
  const read = parseMetadata(body, issuer, undefined);
  examination.published = 'urls' in read ? read.urls : {};
  const found: [option: string, message: string][] = [];
  if (issuer !== login.issuer) {
    // A token proves `authUrl`.
    const option = isRecord(own) || token !== undefined ? 'login.issuer' : 'login.issuer, authUrl';
    found.push([
      option,
      `the provider is the issuer '${examination.shown(issuer)}', not '${examination.shown(login.issuer)}'`,
    ]);
  }
  // The steps `token` and `login` test the token endpoint. Without logins in the browser there is no other.
  for (const name of login.redirectUri === undefined ? [] : (['authorize', 'userinfo'] as const)) {
    const option = tenant.endpointOption(name);
    const url = examination.published[name];
    const used = tenant.settings.endpoints?.[name] ?? tenant.defaultEndpoint(name);
    if (option === 'login.discovery' ? typeof url === 'object' : (url ?? used) !== used) {
      found.push([option, `its ${name} endpoint is ${examination.shown(url)}, not ${used}`]);
    }
  }
  const lists = [
    ['login.algorithms', 'id_token_signing_alg_values_supported', login.algorithms],
    ['login.scope', 'scopes_supported', login.scope.split(' ').filter((name) => name !== 'openid')],
  ] as const;
  for (const [option, member, wanted] of lists) {
    const offered: unknown = body[member];
    if (Array.isArray(offered) && wanted.length > 0 && !wanted.some((value) => offered.includes(value))) {
      found.push([option, `${member}: ${examination.shown(offered.join(', '))}`]);
    }
  }
  const proved =
    'issuer, endpoints and algorithms are those of the metadata; only a login proves the audience';
  return wrongOr(proved, found);
}

interface PublicKey {
  key: KeyObject;
  kid?: unknown;
}

/** The provider publishes one of the configured keys. */
export async function keys(examination: Examination): Promise<Verdict> {
  const { keys: source } = loginOf(examination.tenant);
  const own = source?.kind === 'url' ? source.url : undefined;
  const sets =
    source === undefined || source.kind === 'url'
      ? []
      : [source.kind === 'pem' ? [source] : keysIn(source.jwks)];
  const isCompared = sets.length > 0;
  for (const url of new Set([own, examination.published.keys])) {
    if (typeof url !== 'string') {
      continue;
    }
    const reply = await examination.first(url);
    const isUsable = await keySetOf(reply.status === 200 ? reply.json : undefined).then(
      () => true,
      () => false,
    );
    if (isUsable) {
      sets.push(keysIn(reply.json));
    } else if (!isCompared) {
      return unusable(reply, own === undefined ? 'login.discovery' : 'login.keys', examination.shown(url));
    }
  }
  const [first, second] = sets;
  if (first === undefined || (isCompared && second === undefined)) {
    return unknown('the provider publishes no keys to compare with');
  }
  const isPublished = second?.some((one) => first.some((other) => isSame(one, other))) ?? true;
  return isPublished
    ? ok('the provider publishes such a key; a login only proves that it signs with it')
    : wrong(
        'login.keys',
        'the provider publishes none of these keys, which it may have rotated: a JWKS URL follows that',
      );
}

function keysIn(jwks: unknown): PublicKey[] {
  const list: unknown[] = isRecord(jwks) && Array.isArray(jwks['keys']) ? jwks['keys'] : [];
  return list.filter(isRecord).flatMap((jwk) => {
    try {
      return [{ kid: jwk['kid'], key: createPublicKey({ key: jwk, format: 'jwk' }) }];
    } catch {
      return [];
    }
  });
}

function isSame(one: PublicKey, other: PublicKey): boolean {
  const isNamedOther = one.kid !== undefined && other.kid !== undefined && one.kid !== other.kid;
  return one.key.equals(other.key) && !isNamedOther;
}
