import { randomUUID } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { LoginFailedError, type LoginFailureReason } from '../errors/login-failed.error.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import { hashFits } from '../oidc/token-claims.js';
import { OpenIdProvider } from '../oidc/openid-provider.service.js';
import { TokenValidator } from '../oidc/token-validator.service.js';
import { UserInfo } from '../oidc/user-info.service.js';
import type { VerifiedToken } from '../oidc/verify-token.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import type { TokenDelivery } from '../problems/login-problems.js';
import { ProblemLog } from '../problems/problem-log.service.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import type { Deadline } from '../time/deadline.js';
import { Deadlines } from '../time/deadlines.service.js';
import { browserLoginOf, isHybrid, type BrowserLogin } from './browser-login.js';
import type { CallbackParameters } from './callback-parameters.js';
import { checkResponse } from './check-response.js';
import { CodeExchange } from './code-exchange.service.js';
import { normalizeReturnTo, type PendingLogin } from './pending-login.js';

/** A login that was verified. */
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
export class CallbackService {
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
    this.#identityTtl = settings.cookies.identityTtl;
  }

  /**
   * The identity of the user, and the ID token.
   *
   * @throws {LoginFailedError} where the login is refused
   * @throws {ExhibitorError} `service_unavailable`, `rate_limited` or `deadline_exceeded` where the provider is down or slow
   */
  async verify(
    tenant: Tenant,
    pending: PendingLogin,
    parameters: CallbackParameters,
  ): Promise<VerifiedLogin> {
    const login = browserLoginOf(tenant);
    const deadline = this.deadlines.start(tenant.http.deadline);
    const callback = { tenant, login, pending, parameters, deadline };
    try {
      const requireIss = await this.#requiresIss(callback);
      checkResponse(this.log, callback, requireIss);
      const front = await this.#frontChannelToken(callback);
      const tokens = await this.codes.redeem(tenant, pending, parameters.code ?? '', deadline);
      const token = await this.#verifyIdToken(callback, tokens.idToken, 'provider');
      const { at_hash: tokenHash } = token.payload;
      if (tokenHash !== undefined && !hashFits(tokenHash, tokens.accessToken, token.header.alg)) {
        throw refusal(tenant, 'token_hash');
      }
      checkSameUser(tenant, front, token);
      const identity = await this.#identify(callback, token, tokens.accessToken);
      await authorize(login, identity);
      return { identity, idToken: tokens.idToken };
    } finally {
      deadline.end();
    }
  }

  /** Discovery is asked only where the answer matters. */
  async #requiresIss({ tenant, pending, parameters, deadline }: Callback): Promise<boolean> {
    const isOpen = parameters.iss === undefined && !isHybrid(pending);
    return isOpen && this.provider.requiresIss(tenant, deadline);
  }

  /** Checks of the hybrid flow (OIDC Core §3.3.2.9 to §3.3.2.11). The front-channel access token is not used. */
  async #frontChannelToken(callback: Callback): Promise<VerifiedToken | undefined> {
    const { tenant, pending, parameters } = callback;
    if (!isHybrid(pending)) {
      return undefined;
    }
    const { idToken, code, accessToken } = parameters;
    const token = await this.#verifyIdToken(callback, idToken ?? '', 'client');
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
    delivery: TokenDelivery,
  ): Promise<VerifiedToken> {
    const given = { use: 'id_token', token, nonce, maxAge, delivery } as const;
    return this.validator.verify(tenant, given, deadline);
  }

  async #identify(
    { tenant, login, pending, deadline }: Callback,
    token: VerifiedToken,
    accessToken: string,
  ): Promise<ExhibitorIdentity> {
    const user = await this.userInfo.userOf(tenant, token.payload, accessToken, deadline);
    const returnTo = normalizeReturnTo(pending.returnTo ?? '');
    const { sid } = token.payload;
    return {
      id: randomUUID(),
      issuer: login.issuer,
      ...user,
      tenant: tenant.key,
      tenantId: tenant.tenantId,
      clientId: login.clientId,
      ...(pending.eventId === undefined ? {} : { eventId: pending.eventId }),
      ...(returnTo === undefined ? {} : { returnTo }),
      ...(typeof sid === 'string' && sid !== '' ? { sid } : {}),
      loggedInAt: Number(token.payload.iat) * 1000,
      expiresAt: this.clock.epochMs() + this.#identityTtl,
    };
  }
}

/** Both ID tokens of the hybrid flow must have the same issuer and subject (OIDC Core §3.3.3.6). */
function checkSameUser(tenant: Tenant, front: VerifiedToken | undefined, back: VerifiedToken): void {
  if (front === undefined) {
    return;
  }
  if (front.payload.iss !== back.payload.iss || front.payload.sub !== back.payload.sub) {
    throw refusal(tenant, 'subject');
  }
}

/** Asks the option `authorize` of the host. */
async function authorize(login: BrowserLogin, identity: ExhibitorIdentity): Promise<void> {
  if (login.authorize === undefined) {
    return;
  }
  const { tenant } = identity;
  let isAuthorized: unknown;
  try {
    isAuthorized = await login.authorize(identity);
  } catch (cause) {
    if (isExhibitorError(cause)) {
      throw cause;
    }
    throw new ExhibitorError('service_unavailable', "the host's authorize function failed", {
      tenant,
      cause,
    });
  }
  if (isAuthorized !== true) {
    throw new LoginFailedError('not_authorized', 'the login is refused: not_authorized', { tenant });
  }
}

function refusal(tenant: Tenant, reason: LoginFailureReason): LoginFailedError {
  return new LoginFailedError(reason, `the login is refused: ${reason}`, { tenant: tenant.key });
}
