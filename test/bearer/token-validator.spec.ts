import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { generateKeyPair, SignJWT, UnsecuredJWT, type JWTPayload } from 'jose';
import { ExhibitorModule, TokenValidator, type ValidateOptions } from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { COOKIE_SECRET } from '../support/host.js';
import { AUDIENCE, type FrontDoor, withFrontDoor } from '../support/front-door.js';

let sandbox: ExhibitorSandbox;
let door: FrontDoor;
let app: INestApplicationContext;
let validator: TokenValidator;

withFrontDoor((opened) => ({ sandbox, door } = opened));
beforeAll(async () => {
  const { login: _, ...withoutLogin } = sandbox.tenantOptions('initech');
  app = await NestFactory.createApplicationContext(
    ExhibitorModule.forRoot({
      tenants: {
        acme: door.tenantOptions('acme'),
        globex: sandbox.tenantOptions('globex'),
        initech: withoutLogin,
      },
      secrets: [COOKIE_SECRET],
    }),
    { logger: false, abortOnError: false },
  );
  validator = app.get(TokenValidator);
});
afterAll(() => app?.close());

const now = (): number => Math.floor(Date.now() / 1000);
/** Claims that turn an access token into an ID token. */
const idToken = (overrides: JWTPayload = {}): JWTPayload => ({
  aud: 'acme-web',
  azp: undefined,
  nonce: 'the-nonce',
  ...overrides,
});

const validate = (token: string, use: ValidateOptions['use'], options: Partial<ValidateOptions> = {}) =>
  validator.validate(token, { tenant: 'acme', use, ...options });

describe('TokenValidator with access tokens', () => {
  it('returns the claims of a valid token', async () => {
    const claims = await validate(await door.mint(), 'access_token');
    expect(claims).toEqual(door.claims({ iat: expect.any(Number), exp: expect.any(Number) } as never));
  });

  it.each<[what: string, overrides: JWTPayload, typ: string]>([
    ['without a typ, which not all providers set', {}, ''],
    ['of the typ application/at+jwt', {}, 'application/at+jwt'],
    ['with several audiences', { aud: ['other', AUDIENCE] }, 'at+jwt'],
    ['of another client that is allowed', { azp: 'portal-app' }, 'at+jwt'],
    ['that names its client as client_id', { azp: undefined, client_id: 'portal-app' }, 'at+jwt'],
    ['with a nonce, where its typ says what it is', { nonce: 'x' }, 'at+jwt'],
    ['that expired within the tolerance', { exp: Math.floor(Date.now() / 1000) - 5 }, 'at+jwt'],
  ])('accepts a token %s', async (_, overrides, typ) => {
    const token = await door.mint(overrides, { typ });
    await expect(validate(token, 'access_token')).resolves.toMatchObject({ sub: 'sam.several' });
  });

  it.each<[reason: string, what: string, overrides: JWTPayload, typ: string]>([
    ['issuer', 'of another issuer', { iss: 'https://evil.example' }, 'at+jwt'],
    ['issuer', 'without issuer', { iss: undefined }, 'at+jwt'],
    ['audience', 'for another audience', { aud: 'other-api' }, 'at+jwt'],
    ['audience', 'for the login client', { aud: 'acme-web' }, 'at+jwt'],
    ['audience', 'without audience', { aud: undefined }, 'at+jwt'],
    ['audience', 'of a client that is not allowed', { azp: 'stranger' }, 'at+jwt'],
    ['audience', 'of no client', { azp: undefined }, 'at+jwt'],
    ['subject', 'without subject', { sub: undefined }, 'at+jwt'],
    ['expired', 'that expired', { exp: Math.floor(Date.now() / 1000) - 60 }, 'at+jwt'],
    ['expired', 'without expiry', { exp: undefined }, 'at+jwt'],
    ['issued', 'from the future', { iat: Math.floor(Date.now() / 1000) + 3_600 }, 'at+jwt'],
    ['issued', 'not valid yet', { nbf: Math.floor(Date.now() / 1000) + 3_600 }, 'at+jwt'],
    ['token_type', 'that is an ID token for the same audience', { nonce: 'x' }, ''],
    ['token_type', 'that is an ID token by its typ JWT and at_hash', { at_hash: 'x' }, 'JWT'],
  ])('refuses for the reason %s a token %s', async (reason, _, overrides, typ) => {
    const token = await door.mint(overrides, { typ });
    await expect(validate(token, 'access_token')).rejects.toMatchObject({ code: 'login_failed', reason });
  });

  it('refuses every ID token of a login', async () => {
    const token = await door.mint(idToken(), { typ: '' });
    await expect(validate(token, 'id_token', { nonce: 'the-nonce' })).resolves.toBeDefined();
    await expect(validate(token, 'access_token')).rejects.toMatchObject({ reason: 'audience' });
  });
});

describe('TokenValidator with ID tokens', () => {
  it('returns the claims of a valid token', async () => {
    const token = await door.mint(idToken(), { typ: 'JWT' });
    expect(await validate(token, 'id_token', { nonce: 'the-nonce' })).toMatchObject({ aud: 'acme-web' });
    expect(await validate(token, 'id_token')).toMatchObject({ nonce: 'the-nonce' });
  });

  it('refuses a token with another nonce than was sent', async () => {
    const token = await door.mint(idToken({ nonce: 'another' }), { typ: '' });
    const failure = { code: 'login_failed', reason: 'nonce' };
    await expect(validate(token, 'id_token', { nonce: 'the-nonce' })).rejects.toMatchObject(failure);
  });

  it('refuses every access token', async () => {
    const token = await door.mint();
    await expect(validate(token, 'access_token')).resolves.toBeDefined();
    await expect(validate(token, 'id_token')).rejects.toMatchObject({ reason: 'token_type' });
    const untyped = await door.mint({}, { typ: '' });
    await expect(validate(untyped, 'id_token')).rejects.toMatchObject({ reason: 'audience' });
    const forLogin = await door.mint({ aud: 'acme-web', azp: 'acme-web' });
    await expect(validate(forLogin, 'id_token')).rejects.toMatchObject({ reason: 'token_type' });
  });
});

describe.each(['id_token', 'access_token'] as const)('TokenValidator, signature of an %s', (use) => {
  const good = (): JWTPayload => door.claims(use === 'id_token' ? idToken() : {});

  it('refuses a token signed with another key', async () => {
    const { privateKey } = await generateKeyPair('EdDSA', { crv: 'Ed25519' });
    const token = await door.mint(good(), { key: privateKey, typ: '' });
    await expect(validate(token, use)).rejects.toMatchObject({ code: 'login_failed', reason: 'signature' });
  });

  it('refuses a token that was changed', async () => {
    const [header, , signature] = (await door.mint(good(), { typ: '' })).split('.');
    const changed = Buffer.from(JSON.stringify({ ...good(), sub: 'somebody.else' })).toString('base64url');
    const failure = { reason: 'signature' };
    await expect(validate(`${header}.${changed}.${signature}`, use)).rejects.toMatchObject(failure);
  });

  it('refuses a token without a signature, or with a MAC', async () => {
    const unsigned = new UnsecuredJWT(good()).encode();
    await expect(validate(unsigned, use)).rejects.toMatchObject({ reason: 'algorithm' });
    const mac = await new SignJWT(good())
      .setProtectedHeader({ alg: 'HS256', kid: 'front-door' })
      .sign(new TextEncoder().encode(sandbox.publicKeyPem));
    await expect(validate(mac, use)).rejects.toMatchObject({ reason: 'algorithm' });
  });

  it.each(['', 'opaque', 'a.b', 'a.b.c', 'a.b.c.d.e', `${'x'.repeat(100_000)}.y.z`])(
    'refuses a value that is not a token: %.20s',
    async (token) => {
      await expect(validate(token, use)).rejects.toMatchObject({ code: 'login_failed', reason: 'signature' });
    },
  );
});

describe('TokenValidator and tenants', () => {
  it('accepts the token of a tenant for this tenant only', async () => {
    const token = await door.mint(idToken());
    await expect(validate(token, 'id_token', { tenant: 'globex' })).rejects.toMatchObject({
      code: 'login_failed',
    });
  });

  it('names the options a host has to set', async () => {
    const token = await door.mint({ exp: now() + 60 });
    await expect(validate(token, 'access_token', { tenant: 'globex' })).rejects.toMatchObject({
      code: 'configuration_invalid',
      tenant: 'globex',
      problems: [{ path: 'login.audience.accessToken', expected: expect.any(String) }],
    });
    await expect(validate(token, 'access_token', { tenant: 'initech' })).rejects.toMatchObject({
      code: 'configuration_invalid',
      problems: [{ path: 'login', expected: expect.any(String) }],
    });
    await expect(validate(token, 'access_token', { tenant: 'nobody' })).rejects.toMatchObject({
      code: 'unknown_tenant',
    });
    await expect(validator.validate(token, { use: 'access_token' })).rejects.toMatchObject({
      code: 'tenant_required',
    });
  });
});
