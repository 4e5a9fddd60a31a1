import { randomUUID } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import {
  LoginFailedError,
  type LoginFailureDetails,
  type LoginFailureReason,
} from '../errors/login-failed.error.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import { hashFits } from '../oidc/check-claims.js';
import { OpenIdProvider } from '../oidc/openid-provider.service.js';
import { TokenValidator } from '../oidc/token-validator.service.js';
import { UserInfo } from '../oidc/user-info.service.js';
import type { VerifiedToken } from '../oidc/verify-signature.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import { ProblemLog } from '../problems/problem-log.service.js';
import { describeFailure } from '../problems/token-endpoint-problems.js';
import { authorizedIdentity } from '../session/authorize-identity.js';
import { browserLoginOf, isHybrid, type BrowserLogin, type Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import { Deadlines, type Deadline } from '../time/deadline.js';
import { presentableError } from '../tokens/token-reply.js';
import type { CallbackParameters } from './callback-parameters.js';
import { CodeExchange } from './code-exchange.service.js';
import { startedLogin, type PendingLogin } from './pending-login.js';

/** Reasons of their own: what a user did, or what `prompt=none` cannot do (OIDC Core §3.1.2.6). */
const REASON_BY_ERROR = new Map<string, LoginFailureReason>([
  ['access_denied', 'denied'],
  ['login_required', 'login_required'],
  ['interaction_required', 'interaction_required'],
  ['consent_required', 'consent_required'],
  ['account_selection_required', 'account_selection_required'],
]);

export interface VerifiedLogin {
  identity: ExhibitorIdentity;
  /** Of the token endpoint, for the logout at the provider. */
  idToken: string;
}

/** One callback, with everything its steps need. */
interface Callback {
  tenant: Tenant;
  login: BrowserLogin;
  pending: PendingLogin;
  parameters: CallbackParameters;
  deadline: Deadline;
}

/**
 * Verifies an authorization response whose state was matched and spent. The order is `iss`, `error`, front-channel ID token,
 * code, ID token, userinfo; one deadline covers all.
 */
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
    @Inject(Deadlines) private readonly deadlines: Deadlines,
    @Inject(ProblemLog) private readonly log: ProblemLog,
  ) {
    const { identityTtl, absoluteTtl } = settings.cookies;
    this.#identityTtl = settings.session.includes('host') ? absoluteTtl : identityTtl;
  }

  /** The identity of the user, and the ID token. */
  verify(tenant: Tenant, pending: PendingLogin, parameters: CallbackParameters): Promise<VerifiedLogin> {
    const login = browserLoginOf(tenant);
    return this.deadlines.within(tenant.http.deadline, (deadline) =>
      this.#verify({ tenant, login, pending, parameters, deadline }),
    );
  }

  async #verify(callback: Callback): Promise<VerifiedLogin> {
    const { tenant, pending, parameters, deadline } = callback;
    await this.#checkIssuer(callback);
    this.#checkError(callback);
    const front = await this.#frontChannelToken(callback);
    const tokens = await this.codes.redeem(tenant, pending, parameters.code ?? '', deadline);
    const token = await this.#verifyIdToken(callback, tokens.idToken, true);
    const { at_hash: tokenHash } = token.payload;
    if (tokenHash !== undefined && !hashFits(tokenHash, tokens.accessToken, token.header.alg)) {
      throw refusal(tenant, 'token_hash');
    }
    checkSameUser(tenant, front, token);
    const verified = await this.#identify(callback, token, tokens.accessToken);
    const identity = await authorizedIdentity(tenant, verified, deadline);
    if (identity === undefined) {
      throw refusal(tenant, 'not_authorized');
    }
    return { identity, idToken: tokens.idToken };
  }

  /**
   * RFC 9207 §2.4. A hybrid response without `iss` is bound to its issuer by the front-channel ID token. Reported as
   * unverified, since anybody can send a browser here.
   */
  async #checkIssuer({ tenant, login, pending, parameters: { iss }, deadline }: Callback): Promise<void> {
    const isAccepted =
      iss === undefined
        ? isHybrid(pending) || !(await this.provider.requiresIss(tenant, deadline))
        : iss === login.issuer;
    if (!isAccepted) {
      this.log.report(tenant, {
        cause: 'callback iss',
        options: ['login.issuer'],
        message: 'the callback is refused (issuer): its parameter iss is not the issuer',
        expected: login.issuer,
        received: iss ?? 'none',
        isUnverified: true,
      });
      throw refusal(tenant, 'issuer');
    }
  }

  /** What a user did is not reported. Other errors are, as unverified. */
  #checkError({ tenant, pending, parameters }: Callback): void {
    const { error, error_description: errorDescription } = parameters;
    if (error === undefined) {
      return;
    }
    const { state, nonce, verifier } = pending;
    const shown = presentableError(error, errorDescription, [state, nonce, verifier]);
    const reason = REASON_BY_ERROR.get(error) ?? 'provider';
    if (reason === 'provider') {
      const message = `the callback received an error instead of a code: ${describeFailure(shown)}`;
      this.log.report(tenant, { cause: 'callback error', options: [], message, isUnverified: true });
    }
    throw refusal(tenant, reason, shown);
  }

  /** Checks of the hybrid flow (OIDC Core §3.3.2.9 to §3.3.2.11). The front-channel access token is not used. */
  async #frontChannelToken(callback: Callback): Promise<VerifiedToken | undefined> {
    const { tenant, pending, parameters } = callback;
    if (!isHybrid(pending)) {
      return undefined;
    }
    const { id_token: idToken, code, access_token: accessToken } = parameters;
    const token = await this.#verifyIdToken(callback, idToken ?? '', false);
    const { c_hash: codeHash, at_hash: tokenHash } = token.payload;
    if (!hashFits(codeHash, code ?? '', token.header.alg)) {
      throw refusal(tenant, 'code_hash');
    }
    if (accessToken !== undefined && !hashFits(tokenHash, accessToken, token.header.alg)) {
      throw refusal(tenant, 'token_hash');
    }
    return token;
  }

  #verifyIdToken(
    { tenant, pending: { nonce, maxAge }, deadline }: Callback,
    token: string,
    isFromProvider: boolean,
  ): Promise<VerifiedToken> {
    const given = { use: 'id_token', token, nonce, maxAge, isFromProvider } as const;
    return this.validator.verify(tenant, given, deadline);
  }

  async #identify(
    { tenant, login, pending, deadline }: Callback,
    token: VerifiedToken,
    accessToken: string,
  ): Promise<ExhibitorIdentity> {
    const user = await this.userInfo.userOf(tenant, token.payload, accessToken, deadline);
    const { sid } = token.payload;
    const now = this.clock.epochMs();
    return {
      id: randomUUID(),
      issuer: login.issuer,
      ...user,
      ...startedLogin(pending),
      tenantId: tenant.tenantId,
      clientId: login.clientId,
      redirectUri: login.redirectUri,
      registration: tenant.registration,
      ...(typeof sid === 'string' && sid !== '' ? { sid } : {}),
      // Where the clock of the provider is ahead, the login must not be later than a logout that follows.
      loggedInAt: Math.min(Number(token.payload.iat) * 1000, now),
      expiresAt: now + this.#identityTtl,
    };
  }
}

/** Both ID tokens of the hybrid flow must have the same issuer and subject (OIDC Core §3.3.3.6). */
function checkSameUser(tenant: Tenant, front: VerifiedToken | undefined, back: VerifiedToken): void {
  const { iss, sub } = back.payload;
  if (front !== undefined && (front.payload.iss !== iss || front.payload.sub !== sub)) {
    throw refusal(tenant, 'subject');
  }
}

function refusal(
  { key }: Tenant,
  reason: LoginFailureReason,
  details: LoginFailureDetails = {},
): LoginFailedError {
  return new LoginFailedError(reason, `the login is refused: ${reason}`, { tenant: key, ...details });
}
