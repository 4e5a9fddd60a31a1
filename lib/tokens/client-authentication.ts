/**
 * Client authentication at the token endpoint: the secret of a client, which a function of the host may return anew each time, and
 * how a request proves the client: a secret in the body or the header (RFC 6749 §2.3.1), or an assertion signed with a private key
 * (`private_key_jwt`, RFC 7523 §2.2 and §3).
 */
import { randomUUID } from 'node:crypto';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import type { AssertionKey, ClientAuthSettings, SecretSource } from '../config/client-auth-option.js';
import type { ProblemLog } from '../config/problems/problem-log.service.js';
import type { Tenant } from '../config/tenant.js';
import type { Clock } from '../call/clock.js';
import type { Call } from '../call/call.js';
import type { TransportRequest } from '../http/transport-request.interface.js';

export interface OAuthClient {
  id: string;
  /** Absent: a public client, or one with a private key. */
  secret?: string;
  /** Default `post`. */
  auth?: ClientAuthSettings;
  /** `aud` of its assertions, unless the option `audience` says otherwise. */
  audience: string;
  tokenUrl: string;
}

export type ClientRequest = Required<Pick<TransportRequest, 'headers' | 'body'>>;

const ASSERTION_TYPE = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer';

/** Lifetime of an assertion in seconds: long enough for one request. */
const LIFETIME = 60;

/**
 * Headers and body of a token request. An assertion is created for each attempt: the provider accepts each `jti` once, so
 * that a retry with the same one would be refused as a replay.
 */
export function authenticated(
  client: OAuthClient,
  form: Readonly<Record<string, string>>,
  clock: Clock,
): ClientRequest {
  const { id, secret, auth } = client;
  if (typeof auth === 'object') {
    const body = async (): Promise<string> =>
      encode({
        ...form,
        client_id: id,
        client_assertion_type: ASSERTION_TYPE,
        client_assertion: await createAssertion(client, auth, clock),
      });
    return { headers: {}, body };
  }
  // A public client sends its id and no secret, not even an empty one.
  if (secret === undefined) {
    return { headers: {}, body: encode({ ...form, client_id: id }) };
  }
  if (auth === 'basic') {
    return { headers: { authorization: `Basic ${basicCredentials(id, secret)}` }, body: encode(form) };
  }
  return { headers: {}, body: encode({ ...form, client_id: id, client_secret: secret }) };
}

/**
 * Texts that a reply may contain and an error must not: forms of the secret and the whole request. An assertion needs no entry:
 * anything like a JWT is hidden.
 */
export function hiddenForms({ id, secret }: OAuthClient, { headers, body }: ClientRequest): string[] {
  const pairs =
    secret === undefined ? [] : [secret, `${id}:${secret}`, `${formEncode(id)}:${formEncode(secret)}`];
  return [...pairs, ...Object.values(headers), ...(typeof body === 'string' ? [body] : [])];
}

/** Text that only a holder of the client's secret or private key knows, to derive a fingerprint from. */
export function secretTextOf({ secret, auth }: OAuthClient): string {
  return typeof auth === 'object'
    ? auth.privateKey.export({ format: 'der', type: 'pkcs8' }).toString('base64')
    : (secret ?? '');
}

/**
 * The draft of a revision (draft-ietf-oauth-rfc7523bis) has the issuer as the only audience and an explicit `typ`. Providers
 * that still take the token URL may refuse that `typ`, so an assertion for the token URL has the former one.
 */
async function createAssertion(client: OAuthClient, key: AssertionKey, clock: Clock): Promise<string> {
  const audience = key.audience ?? client.audience;
  const typ = audience === client.tokenUrl ? 'JWT' : 'client-authentication+jwt';
  const { alg, kid } = key;
  const { SignJWT } = await import('jose');
  const issuedAt = Math.floor(clock.epochMs() / 1000);
  return new SignJWT({ jti: randomUUID() })
    .setProtectedHeader({ alg, typ, ...(kid === undefined ? {} : { kid }) })
    .setIssuer(client.id)
    .setSubject(client.id)
    .setAudience(audience)
    .setIssuedAt(issuedAt)
    .setExpirationTime(issuedAt + LIFETIME)
    .sign(key.privateKey);
}

/** Id and secret are form-encoded before they are joined (RFC 6749 §2.3.1). */
function basicCredentials(id: string, secret: string): string {
  return Buffer.from(`${formEncode(id)}:${formEncode(secret)}`).toString('base64');
}

function formEncode(value: string): string {
  return encode({ '': value }).slice(1);
}

function encode(form: Readonly<Record<string, string>>): string {
  return new URLSearchParams(form).toString();
}

/** Names an option with a secret, and the code of the error where its function fails. */
export interface SecretOption {
  name: 'clientSecret' | 'login.clientSecret';
  code: 'token_unavailable' | 'service_unavailable';
}

const API_SECRET: SecretOption = { name: 'clientSecret', code: 'token_unavailable' };

/**
 * The API client of a tenant with its secret of now.
 *
 * @throws {ExhibitorError} `token_unavailable` where the secret function fails; `deadline_exceeded`
 */
export function readApiClient(tenant: Tenant, call: Call, log: ProblemLog): Promise<OAuthClient> {
  const { clientId: id, clientSecret, clientAuth: auth } = tenant.settings;
  const tokenUrl = tenant.endpointUrl('token');
  // The API client knows no issuer: only a login has one.
  const client = { id, auth, tokenUrl, audience: tokenUrl };
  return withSecret(client, clientSecret, API_SECRET, tenant, call, log);
}

/**
 * The client with its secret of now, where it has one: a function of the host is called each time, within the deadline, and reported to
 * the operator where it fails.
 *
 * @throws {ExhibitorError} `code` of the option where the function fails, with its error as `cause`, or returns no secret;
 * `deadline_exceeded`
 */
export async function withSecret(
  client: OAuthClient,
  source: SecretSource | undefined,
  { name, code }: SecretOption,
  tenant: Tenant,
  call: Call,
  log: ProblemLog,
): Promise<OAuthClient> {
  if (typeof client.auth === 'object' || source === undefined) {
    return client;
  }
  if (typeof source === 'string') {
    return { ...client, secret: source };
  }
  // Without the name of the option: visitors see this message.
  const message = 'the secret of the client is not available';
  let secret: unknown;
  try {
    secret = await call.race(Promise.resolve(source()));
  } catch (error) {
    if (call.isOver) {
      throw call.failure({ tenant: tenant.key, attempts: 0 });
    }
    throw log.hostError({ tenant, option: name }, error, { code, message, attempts: 0 });
  }
  if (typeof secret === 'string' && secret !== '') {
    return { ...client, secret };
  }
  log.report(tenant, {
    cause: `${name} of no text`,
    options: [name],
    message: 'the function returned no secret',
  });
  throw new ExhibitorError(code, message, { tenant: tenant.key, attempts: 0 });
}

/** True for the words by which a provider refuses a secret. That of Keycloak is `unauthorized_client`. */
export function refusesSecret(oauthError: string | undefined): boolean {
  return oauthError === 'invalid_client' || oauthError === 'unauthorized_client';
}

/**
 * After {@link refusesSecret}: the client with a newer secret, where the host's function has one. The same secret would be refused
 * again, and some providers lock a client out after several failures.
 */
export async function newerClient(
  client: OAuthClient,
  source: SecretSource | undefined,
  read: () => Promise<OAuthClient>,
): Promise<OAuthClient | undefined> {
  if (typeof source !== 'function') {
    return undefined;
  }
  const newest = await read();
  return newest.secret === client.secret ? undefined : newest;
}
