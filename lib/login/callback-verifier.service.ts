import { createHash, randomUUID } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import type { JWTPayload } from 'jose';
import { LoginFailedError, type LoginFailureReason } from '../errors/login-failed.error.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import { isText } from '../model/json-values.js';
import { OpenIdProvider } from '../oidc/openid-provider.service.js';
import { TokenValidator } from '../oidc/token-validator.service.js';
import { UserInfo, type VerifiedUser } from '../oidc/user-info.service.js';
import type { VerifiedToken } from '../oidc/verify-signature.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../config/check-options.js';
import { ProblemLog } from '../config/problems/problem-log.service.js';
import { describeFailure } from '../config/problems/partner-problems.js';
import { browserLoginOf, isHybrid, type Tenant } from '../config/tenant.js';
import { Clock } from '../call/clock.js';
import type { Call } from '../call/call.js';
import { presentableError } from '../tokens/token-endpoint.service.js';
import type { KeptIdToken } from './id-token-cookie.service.js';
import { authorizedIdentity, NOT_AUTHORIZED } from './identity.js';
import { misfitOf, type CallbackParameters } from './callback-parameters.js';
import { CodeExchange } from './code-exchange.service.js';
import type { ProvenLogin } from './started-login.js';

/** Errors that no operator can mend: the user refused, or `prompt=none` needs the user (OIDC Core §3.1.2.6). Others are `provider`. */
const REASON_BY_ERROR = new Map<string, LoginFailureReason>([
  ['access_denied', 'denied'],
  ['login_required', 'login_required'],
  ['interaction_required', 'interaction_required'],
  ['consent_required', 'consent_required'],
  ['account_selection_required', 'account_selection_required'],
]);

/** Verifies an authorization response whose state was matched and spent. One deadline covers all. */
@Injectable()
export class CallbackVerifier {
  readonly #identityTtl: number;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(TokenValidator) private readonly validator: TokenValidator,
    @Inject(OpenIdProvider) private readonly provider: OpenIdProvider,
    @Inject(CodeExchange) private readonly codes: CodeExchange,
    @Inject(UserInfo) private readonly userInfo: UserInfo,
    @Inject(Clock) private readonly clock: Clock,
    @Inject(ProblemLog) private readonly log: ProblemLog,
  ) {
    const { identityTtl, absoluteTtl } = settings.cookies;
    this.#identityTtl = settings.session.includes('host') ? absoluteTtl : identityTtl;
  }

  /** See {@link misfitOf}. A method, since the testing module replaces it. */
  misfitOf(...given: Parameters<typeof misfitOf>): ReturnType<typeof misfitOf> {
    return misfitOf(...given);
  }

  /** The whole identity of the user, and the ID token of the token endpoint. */
  async verify(
    tenant: Tenant,
    login: ProvenLogin,
    parameters: CallbackParameters,
    call: Call,
  ): Promise<KeptIdToken> {
    const { nonce, maxAge, verifier } = login;
    const verifyIdToken = (token: string, isFromProvider: boolean): Promise<VerifiedToken> =>
      this.validator.verify(tenant, { use: 'id_token', token, nonce, maxAge, isFromProvider }, call);
    await this.#checkIssuer(tenant, login, parameters.iss, call);
    this.#checkError(tenant, login, parameters);
    const front = isHybrid(login) ? await verifyIdToken(parameters.id_token ?? '', false) : undefined;
    if (front !== undefined) {
      this.#checkHashes(tenant, front, parameters);
    }
    const tokens = await this.codes.redeem(tenant, { code: parameters.code ?? '', verifier }, call);
    const { header, payload } = await verifyIdToken(tokens.idToken, true);
    const { iss, sub, at_hash: tokenHash } = payload;
    if (tokenHash !== undefined && !hashFits(tokenHash, tokens.accessToken, header.alg)) {
      throw this.log.refusal(tenant, 'ID token', { reason: 'token_hash' });
    }
    // Both ID tokens of the hybrid flow have the same issuer and subject (OIDC Core §3.3.3.6).
    if (front !== undefined && (front.payload.iss !== iss || front.payload.sub !== sub)) {
      const detail = 'its ID token and that of the token endpoint are of different users';
      throw this.log.refusal(tenant, 'callback', { reason: 'subject', detail, isUnverified: true });
    }
    const user = await this.userInfo.userOf(tenant, payload, tokens.accessToken, call);
    const verified = this.#identityOf(tenant, login, payload, user);
    const identity = await authorizedIdentity(tenant, verified, call, this.log);
    if (identity === undefined) {
      throw this.log.refusal(tenant, 'user', NOT_AUTHORIZED);
    }
    return { identity, idToken: tokens.idToken };
  }

  /** RFC 9207 §2.4. A hybrid response without `iss` is bound by its ID token. */
  async #checkIssuer(tenant: Tenant, login: ProvenLogin, iss: string | undefined, call: Call): Promise<void> {
    const { issuer } = browserLoginOf(tenant);
    const isAccepted =
      iss === undefined
        ? isHybrid(login) || !(await this.provider.requiresIss(tenant, call))
        : iss === issuer;
    if (!isAccepted) {
      throw this.log.refusal(tenant, 'callback', {
        reason: 'issuer',
        option: 'login.issuer',
        detail: 'its parameter iss is not the issuer',
        expected: issuer,
        received: iss ?? 'none',
        // Anybody can send a browser here.
        isUnverified: true,
      });
    }
  }

  /** That the user refused is not logged. */
  #checkError(tenant: Tenant, login: ProvenLogin, parameters: CallbackParameters): void {
    const { error, error_description: errorDescription } = parameters;
    if (error === undefined) {
      return;
    }
    const { nonce, verifier } = login;
    const shown = presentableError(error, errorDescription, [parameters.state, nonce, verifier]);
    const reason = REASON_BY_ERROR.get(error) ?? 'provider';
    if (reason === 'denied') {
      throw new LoginFailedError(reason, 'the login is refused: denied', { tenant: tenant.key, ...shown });
    }
    const detail = 'it has an error instead of a code';
    const received = describeFailure(shown);
    throw this.log.refusal(tenant, 'callback', { reason, detail, received, isUnverified: true }, shown);
  }

  /** Of the hybrid flow (OIDC Core §3.3.2.9 to §3.3.2.11). The front-channel access token is not used. */
  #checkHashes(
    tenant: Tenant,
    { header: { alg }, payload }: VerifiedToken,
    { code = '', access_token: accessToken }: CallbackParameters,
  ): void {
    const isOfCode = hashFits(payload['c_hash'], code, alg);
    if (!isOfCode || (accessToken !== undefined && !hashFits(payload['at_hash'], accessToken, alg))) {
      const reason = isOfCode ? 'token_hash' : 'code_hash';
      throw this.log.refusal(tenant, 'callback', { reason, isUnverified: true });
    }
  }

  #identityOf(
    tenant: Tenant,
    { eventId, returnTo }: ProvenLogin,
    { iat, sid }: JWTPayload,
    user: VerifiedUser,
  ): ExhibitorIdentity {
    const { issuer, clientId, redirectUri } = browserLoginOf(tenant);
    const now = this.clock.epochMs();
    return {
      id: randomUUID(),
      issuer,
      ...user,
      tenant: tenant.key,
      eventId,
      returnTo,
      tenantId: tenant.tenantId,
      clientId,
      redirectUri,
      registration: tenant.registration,
      ...(isText(sid) ? { sid } : {}),
      // Where the clock of the provider is ahead, the login must not be later than a logout that follows.
      loggedInAt: Math.min(Number(iat) * 1000, now),
      expiresAt: now + this.#identityTtl,
    };
  }
}

/** True where a claim is the left half of this value's hash, by the hash function of the algorithm (OIDC Core §3.3.2.11). */
function hashFits(claim: unknown, value: string, algorithm: string): boolean {
  // `EdDSA` and `Ed25519` name no hash function: Ed25519 uses SHA-512.
  const bits = /(256|384|512)$/.exec(algorithm)?.[1] ?? '512';
  const digest = createHash(`sha${bits}`).update(value).digest();
  return claim === digest.subarray(0, digest.length / 2).toString('base64url');
}
