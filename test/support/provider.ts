import { createHash, randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { setTimeout } from 'node:timers/promises';
import type { JSONWebKeySet } from 'jose';
import type { LoginOptions, TenantOptions } from '../../lib/index.js';
import { addSecret } from '../setup/leaks.js';
import { KEYS, sign, type SigningKey } from './provider-keys.js';
import type { Claims, Script, TokenChange, WireReply } from './provider-script.js';
import { follow } from './server.js';

/** Prefixes of every code and access token, by which one in an error is found. */
const CODE = 'hostile-code-of-the-tests-';
const ACCESS_TOKEN = 'hostile-access-token-of-the-tests-';
const METADATA = '/.well-known/openid-configuration';
export const CLIENT_ID = 'hostile-web';
export const CLIENT_SECRET = 'hostile secret: with+reserved/characters&=%?';
for (const secret of [CODE, ACCESS_TOKEN, CLIENT_SECRET]) {
  addSecret(secret);
}

/** A login between its authorize request and its token request. */
interface Grant {
  request: URLSearchParams;
  /** Issued for the code; valid for userinfo. */
  accessToken: string;
  /** Issued beside the code; not valid for anything. */
  frontAccessToken: string;
  clientId: string;
}

/** A request to the provider. */
export interface SeenRequest {
  path: string;
  query: URLSearchParams;
  headers: IncomingMessage['headers'];
  form: URLSearchParams;
}

export type LoginOverrides = Partial<LoginOptions>;

/**
 * An identity provider whose replies a `script` can change in single fields; without a script they are correct. It
 * checks codes, PKCE and redirect URIs, and records its requests.
 */
export class ScriptedProvider {
  script: Script = {};
  /** Further paths of the endpoints, by their usual ones: `{ '/oauth2/token': '/connect/token' }`. */
  otherPaths: Readonly<Record<string, string>> = {};
  /** Signs ID tokens. */
  key: SigningKey = KEYS.rs256;
  /** Published at `/connect/jwks`. */
  jwks: JSONWebKeySet = { keys: [KEYS.rs256.jwk, KEYS.ps256.jwk, KEYS.es256.jwk] };
  readonly seen: SeenRequest[] = [];
  /** Number of token requests with each code. */
  readonly redemptions = new Map<string, number>();
  /** Codes that were exchanged for tokens. */
  readonly redeemed = new Set<string>();
  readonly #grants = new Map<string, Grant>();
  readonly #tokens = new Set<string>();

  private constructor(
    readonly url: string,
    readonly stop: () => Promise<void>,
  ) {}

  static async start(): Promise<ScriptedProvider> {
    const { url, stop } = await follow(
      createServer((request, response) => void provider.#serve(request, response)),
    );
    const provider = new ScriptedProvider(url, stop);
    return provider;
  }

  /** Options of a tenant with this provider. */
  tenantOptions(redirectUri: string, login: LoginOverrides = {}): TenantOptions {
    return {
      tenantId: 'tenant-of-the-hostile-provider',
      baseUrl: this.url,
      authUrl: this.url,
      clientId: 'hostile-api',
      clientSecret: CLIENT_SECRET,
      login: {
        clientId: CLIENT_ID,
        clientSecret: CLIENT_SECRET,
        redirectUri,
        issuer: this.url,
        keys: this.jwks,
        ...login,
      },
    };
  }

  /** Number of requests to a path. */
  count(path: string): number {
    return this.seen.filter((request) => request.path === path).length;
  }

  last(path: string): SeenRequest {
    const request = this.seen.findLast((candidate) => candidate.path === path);
    if (request === undefined) {
      throw new Error(`nothing arrived at ${path}`);
    }
    return request;
  }

  /** The parameters of the authorization response to a request; also for tests without a redirect. */
  async authorize(request: URLSearchParams): Promise<URLSearchParams> {
    const code = `${CODE}${randomUUID()}`;
    const grant = {
      request,
      accessToken: `${ACCESS_TOKEN}${randomUUID()}`,
      frontAccessToken: `${ACCESS_TOKEN}${randomUUID()}`,
      clientId: request.get('client_id') ?? '',
    };
    this.#grants.set(code, grant);
    const types = (request.get('response_type') ?? '').split(' ');
    const response = new URLSearchParams({ state: request.get('state') ?? '', code, iss: this.url });
    if (types.includes('id_token')) {
      const hashes = {
        c_hash: this.#hash(code),
        ...(types.includes('token') ? { at_hash: this.#hash(grant.frontAccessToken) } : {}),
      };
      response.set('id_token', await this.#idToken(grant, this.script.frontToken, hashes));
    }
    if (types.includes('token')) {
      response.set('access_token', grant.frontAccessToken);
      response.set('token_type', 'Bearer');
    }
    this.script.authorization?.(response);
    return response;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', this.url);
    const form = new URLSearchParams(await text(request).catch(() => ''));
    const seen = { path: url.pathname, query: url.searchParams, headers: request.headers, form };
    this.seen.push(seen);
    const reply = await this.#answer(seen);
    if (reply.delay !== undefined) {
      await setTimeout(reply.delay);
    }
    if (reply.fault === 'silence') {
      return;
    }
    if (reply.fault === 'reset') {
      return void request.socket.resetAndDestroy();
    }
    response.writeHead(reply.status, { 'content-length': Buffer.byteLength(reply.body), ...reply.headers });
    if (reply.fault !== 'cut') {
      return void response.end(reply.body);
    }
    response.write(reply.body.slice(0, 10), () => request.socket.destroy());
  }

  async #answer(seen: SeenRequest): Promise<WireReply> {
    switch (this.otherPaths[seen.path] ?? seen.path) {
      case '/connect/authorize':
        return this.#authorizationReply(seen.query);
      case '/connect/token':
        return this.#change(await this.#tokenReply(seen), this.script.token);
      case '/connect/userinfo':
        return this.#change(await this.#userinfoReply(seen), this.script.userinfo);
      case '/connect/jwks':
        return this.#change(json(this.jwks), this.script.keys);
      default:
        return seen.path.endsWith(METADATA)
          ? this.#change(json(this.#metadata(seen.path.slice(0, -METADATA.length))), this.script.metadata)
          : json({ error: 'not_found' }, 404);
    }
  }

  /** Metadata of the issuer with this path, with the endpoints of `/oauth2`. */
  #metadata(path: string): Claims {
    return {
      issuer: this.url + path,
      authorization_endpoint: `${this.url}/oauth2/authorize`,
      token_endpoint: `${this.url}/oauth2/token`,
      userinfo_endpoint: `${this.url}/oauth2/me`,
      jwks_uri: `${this.url}/oauth2/jwks`,
    };
  }

  #change(reply: WireReply, change: Script['token']): WireReply {
    return change?.(reply) ?? reply;
  }

  async #authorizationReply(request: URLSearchParams): Promise<WireReply> {
    const redirectUri = request.get('redirect_uri') ?? '';
    const response = await this.authorize(request);
    if (request.get('response_mode') !== 'form_post') {
      const location = new URL(redirectUri);
      location.search = response.toString();
      return { status: 302, headers: { location: location.href }, body: '' };
    }
    const inputs = [...response].map(([name, value]) => `<input name="${name}" value="${escape(value)}">`);
    const body = `<form method="post" action="${escape(redirectUri)}">${inputs.join('')}</form>`;
    return { status: 200, headers: { 'content-type': 'text/html' }, body };
  }

  async #tokenReply({ form }: SeenRequest): Promise<WireReply> {
    if (form.get('grant_type') !== 'authorization_code') {
      return json({ error: 'unsupported_grant_type' }, 400);
    }
    const code = form.get('code') ?? '';
    this.redemptions.set(code, (this.redemptions.get(code) ?? 0) + 1);
    const { clientSecret } = this.script;
    if (clientSecret !== undefined && form.get('client_secret') !== clientSecret) {
      return json({ error: 'invalid_client', error_description: 'Invalid client credentials' }, 401);
    }
    const grant = this.#grants.get(code);
    this.#grants.delete(code);
    const challenge = createHash('sha256')
      .update(form.get('code_verifier') ?? '')
      .digest('base64url');
    if (
      grant?.request.get('code_challenge') !== challenge ||
      grant.request.get('redirect_uri') !== form.get('redirect_uri')
    ) {
      return json({ error: 'invalid_grant', error_description: 'the code does not fit this login' }, 400);
    }
    this.redeemed.add(code);
    this.#tokens.add(grant.accessToken);
    return json({
      access_token: grant.accessToken,
      token_type: 'Bearer',
      expires_in: 3600,
      id_token: await this.#idToken(grant, this.script.backToken, {
        at_hash: this.#hash(grant.accessToken),
      }),
    });
  }

  async #userinfoReply({ headers }: SeenRequest): Promise<WireReply> {
    const token = /^Bearer (.+)$/.exec(headers.authorization ?? '')?.[1] ?? '';
    if (!this.#tokens.has(token)) {
      return json({ error: 'invalid_token' }, 401);
    }
    return json({ sub: 'pat', name: 'Pat', ...this.#email('userinfo') });
  }

  #idToken(grant: Grant, change: TokenChange = {}, hashes: Claims): Promise<string> {
    const now = Math.floor(Date.now() / 1000);
    const claims: Claims = {
      iss: this.url,
      sub: 'pat',
      aud: grant.clientId,
      exp: now + 300,
      iat: now,
      auth_time: now,
      nonce: grant.request.get('nonce'),
      ...hashes,
      ...this.#email('id_token'),
    };
    change.claims?.(claims);
    return this.#write(JSON.stringify(claims), change);
  }

  async #write(payload: string, { write, key = this.key, header }: TokenChange): Promise<string> {
    const token = await sign(payload, key, header);
    return (await write?.(payload, token)) ?? token;
  }

  #email(where: 'id_token' | 'userinfo'): Claims {
    const { email } = this.script;
    if (email === 'nowhere' || (email === 'userinfo' && where === 'id_token')) {
      return {};
    }
    return { email: 'pat@example.com', email_verified: true };
  }

  #hash(value: string): string {
    // Every algorithm used here hashes with SHA-256 (OIDC Core §3.3.2.11).
    return createHash('sha256').update(value).digest().subarray(0, 16).toString('base64url');
  }
}

function json(body: unknown, status = 200): WireReply {
  return { status, headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
}

function escape(value: string): string {
  return value.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;');
}
