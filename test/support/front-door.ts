import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { afterAll, beforeAll } from '@jest/globals';
import { exportJWK, generateKeyPair, SignJWT, type CryptoKey, type JWK, type JWTPayload } from 'jose';
import type { TenantOptions } from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { jwksOf, startSandbox } from './sandbox.js';
import { listen } from './server.js';

/** A sandbox and a front door for the tests of a file. */
export function withFrontDoor(
  onOpen: (opened: { sandbox: ExhibitorSandbox; door: FrontDoor }) => void,
): void {
  let sandbox: ExhibitorSandbox | undefined;
  let door: FrontDoor | undefined;
  beforeAll(async () => {
    sandbox = await startSandbox();
    door = await FrontDoor.open(sandbox);
    onOpen({ sandbox, door });
  });
  afterAll(async () => {
    await door?.close();
    await sandbox?.stop();
  });
}

/** Audience of the users' access tokens. */
export const AUDIENCE = 'portal-api';

export interface MintOptions {
  typ?: string | undefined;
  key?: CryptoKey;
  alg?: string;
  kid?: string;
}

/**
 * An identity provider that issues JWT access tokens to users, where the sandbox issues opaque ones. It is a proxy in
 * front of the sandbox: it signs tokens with its own key, answers userinfo itself and forwards everything else.
 */
export class FrontDoor {
  /** The userinfo reply for a token; 401 without an entry. */
  readonly userinfo = new Map<string, Record<string, unknown> | number>();
  /** Tokens of the requests to userinfo. */
  readonly userinfoCalls: string[] = [];

  private constructor(
    private readonly sandbox: ExhibitorSandbox,
    private readonly server: Server,
    readonly url: string,
    private readonly privateKey: CryptoKey,
    private readonly publicJwk: JWK,
  ) {}

  static async open(sandbox: ExhibitorSandbox): Promise<FrontDoor> {
    const { privateKey, publicKey } = await generateKeyPair('EdDSA', { crv: 'Ed25519', extractable: true });
    const publicJwk = { ...(await exportJWK(publicKey)), kid: 'front-door', alg: 'EdDSA', use: 'sig' };
    const server = createServer();
    const url = `http://127.0.0.1:${await listen(server)}`;
    const door = new FrontDoor(sandbox, server, url, privateKey, publicJwk);
    server.on('request', (request, response) => void door.#answer(request, response));
    return door;
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  /** Options of a tenant with this identity provider, for logins by cookie and by token. */
  tenantOptions(key: string, redirectUri?: string): TenantOptions & { login: object } {
    const options = this.sandbox.tenantOptions(key, { redirectUri });
    return {
      ...options,
      authUrl: this.url,
      login: {
        ...options.login,
        algorithms: ['RS256', 'EdDSA'],
        keys: { keys: [...jwksOf(this.sandbox).keys.map((jwk) => ({ ...jwk })), this.publicJwk] },
        audience: { idToken: options.login.clientId, accessToken: AUDIENCE },
        authorizedParties: ['portal-spa', 'portal-app'],
      },
    };
  }

  /** Claims of a valid access token of a person. */
  claims(overrides: JWTPayload = {}): JWTPayload {
    const now = Math.floor(Date.now() / 1000);
    return {
      iss: this.sandbox.url,
      aud: AUDIENCE,
      sub: 'sam.several',
      azp: 'portal-spa',
      email: 'sam.several@example.com',
      iat: now,
      exp: now + 600,
      ...overrides,
    };
  }

  /** Signs an access token; a claim that is `undefined` in the overrides is left out. */
  mint(
    overrides: JWTPayload = {},
    { typ = 'at+jwt', key = this.privateKey, alg = 'EdDSA', kid = 'front-door' }: MintOptions = {},
  ): Promise<string> {
    return new SignJWT(this.claims(overrides))
      .setProtectedHeader({ alg, kid, ...(typ === '' ? {} : { typ }) })
      .sign(key);
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.url === '/connect/userinfo') {
      return this.#answerUserinfo(request, response);
    }
    const body: Buffer[] = [];
    for await (const chunk of request) {
      body.push(chunk as Buffer);
    }
    const { host: _host, connection: _connection, 'content-length': _length, ...headers } = request.headers;
    const reply = await fetch(`${this.sandbox.url}${request.url ?? ''}`, {
      method: request.method ?? 'GET',
      headers: Object.entries(headers).map(([name, value]): [string, string] => [name, String(value)]),
      body: body.length > 0 ? Buffer.concat(body) : null,
      redirect: 'manual',
    });
    const {
      'content-encoding': _encoding,
      'transfer-encoding': _transfer,
      ...kept
    } = Object.fromEntries(reply.headers);
    const cookies = reply.headers.getSetCookie();
    response.writeHead(reply.status, { ...kept, ...(cookies.length > 0 ? { 'set-cookie': cookies } : {}) });
    response.end(Buffer.from(await reply.arrayBuffer()));
  }

  #answerUserinfo(request: IncomingMessage, response: ServerResponse): void {
    const token = /^Bearer (.+)$/.exec(request.headers.authorization ?? '')?.[1] ?? '';
    this.userinfoCalls.push(token);
    const answer = this.userinfo.get(token) ?? 401;
    response.writeHead(typeof answer === 'number' ? answer : 200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(typeof answer === 'number' ? { error: 'invalid_token' } : answer));
  }
}
