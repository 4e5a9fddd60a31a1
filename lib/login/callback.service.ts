import { randomUUID } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { isExhibitorError, ExhibitorError } from '../errors/exhibitor.error.js';
import { LoginFailedError, type LoginFailureReason } from '../errors/login-failed.error.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import { Deadline } from '../time/deadline.js';
import { browserLoginOf, isHybrid, type BrowserLogin } from './browser-login.js';
import type { CallbackParameters } from './callback-parameters.js';
import { CodeExchange } from './code-exchange.service.js';
import { contactEmail, hasContactEmail, personClaims } from '../oidc/contact-email.js';
import { hashFits } from '../oidc/id-token-hash.js';
import type { PendingLogin } from './pending-login.js';
import { TokenValidator } from '../oidc/token-validator.service.js';
import { UserInfo, type Claims } from '../oidc/user-info.service.js';
import type { VerifiedToken } from '../oidc/verify-token.js';

/** One callback on its way: everything its steps need. */
interface Callback {
  tenant: Tenant;
  login: BrowserLogin;
  pending: PendingLogin;
  parameters: CallbackParameters;
  deadline: Deadline;
}

/**
 * Finishes a login whose state was matched and spent: `iss`, `error`, front-channel ID token, code, ID token,
 * userinfo, in this order, under one deadline.
 */
@Injectable()
export class CallbackService {
  readonly #identityTtl: number;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(TokenValidator) private readonly validator: TokenValidator,
    @Inject(CodeExchange) private readonly exchange: CodeExchange,
    @Inject(UserInfo) private readonly userInfo: UserInfo,
    @Inject(Clock) private readonly clock: Clock,
  ) {
    this.#identityTtl = settings.cookies.identityTtl;
  }

  /** @throws {LoginFailedError} for each refusal; a provider that is slow or down stays 503 or 504 */
  async finish(
    tenant: Tenant,
    pending: PendingLogin,
    parameters: CallbackParameters,
  ): Promise<ExhibitorIdentity> {
    const login = browserLoginOf(tenant);
    const deadline = Deadline.start(this.clock, tenant.http.deadline);
    const callback = { tenant, login, pending, parameters, deadline };
    try {
      checkIssuer(callback);
      checkError(callback);
      const front = await this.#frontChannel(callback);
      const tokens = await this.exchange.redeem(tenant, pending, parameters.code ?? '', deadline);
      const back = await this.validator.validateIdToken(tenant, tokens.idToken, pending.nonce, deadline);
      const { at_hash: atHash } = back.payload;
      if (atHash !== undefined && !hashFits(atHash, tokens.accessToken, back.header.alg)) {
        refuse(tenant, 'token_hash');
      }
      if (front !== undefined) {
        checkSamePerson(tenant, front, back);
      }
      return await this.#identify(callback, back.payload, tokens.accessToken);
    } finally {
      deadline.end();
    }
  }

  /** OIDC Core §3.3.2.9 to §3.3.2.11. The front-channel access token is checked and dropped. */
  async #frontChannel({
    tenant,
    pending,
    parameters,
    deadline,
  }: Callback): Promise<VerifiedToken | undefined> {
    if (!isHybrid(pending)) {
      return undefined;
    }
    const { idToken, code, accessToken } = parameters;
    const token = await this.validator.validateIdToken(tenant, idToken ?? '', pending.nonce, deadline);
    const { c_hash: codeHash, at_hash: tokenHash } = token.payload;
    if (!hashFits(codeHash, code ?? '', token.header.alg)) {
      refuse(tenant, 'code_hash');
    }
    if (accessToken !== undefined && !hashFits(tokenHash, accessToken, token.header.alg)) {
      refuse(tenant, 'token_hash');
    }
    return token;
  }

  async #identify(callback: Callback, idToken: Claims, accessToken: string): Promise<ExhibitorIdentity> {
    const { tenant, login, pending, deadline } = callback;
    const subject = String(idToken['sub']);
    const userinfo = hasContactEmail(idToken, login)
      ? undefined
      : await this.userInfo.read(tenant, accessToken, subject, deadline);
    const contact = contactEmail(userinfo === undefined ? [idToken] : [idToken, userinfo], login);
    if ('refusal' in contact) {
      return refuse(tenant, contact.refusal);
    }
    const identity: ExhibitorIdentity = {
      id: randomUUID(),
      issuer: login.issuer,
      subject,
      email: contact.email,
      claims: personClaims(idToken, userinfo),
      tenant: tenant.key,
      tenantId: tenant.tenantId,
      clientId: login.clientId,
      ...(pending.eventId === undefined ? {} : { eventId: pending.eventId }),
      ...(pending.returnTo === undefined ? {} : { returnTo: pending.returnTo }),
      expiresAt: this.clock.epochMs() + this.#identityTtl,
    };
    if (!(await askHost(login, identity))) {
      refuse(tenant, 'not_authorized');
    }
    return identity;
  }
}

/** RFC 9207 §2.4; a hybrid reply is bound by its front-channel ID token instead. */
function checkIssuer({ tenant, login, pending, parameters }: Callback): void {
  const { iss } = parameters;
  if (iss === undefined ? login.requireIss === true && !isHybrid(pending) : iss !== login.issuer) {
    refuse(tenant, 'issuer');
  }
}

function checkError({ tenant, parameters: { error } }: Callback): void {
  if (error !== undefined) {
    refuse(tenant, error === 'access_denied' ? 'denied' : 'provider');
  }
}

/** OIDC Core §3.3.3.6: both ID tokens name the same issuer and subject. */
function checkSamePerson(tenant: Tenant, front: VerifiedToken, back: VerifiedToken): void {
  if (front.payload.iss !== back.payload.iss || front.payload.sub !== back.payload.sub) {
    refuse(tenant, 'subject');
  }
}

async function askHost(login: BrowserLogin, identity: ExhibitorIdentity): Promise<boolean> {
  if (login.authorize === undefined) {
    return true;
  }
  try {
    return (await login.authorize(identity)) === true;
  } catch (error) {
    if (isExhibitorError(error)) {
      throw error;
    }
    throw new ExhibitorError('service_unavailable', "the host's authorize function failed", {
      tenant: identity.tenant,
      cause: error,
    });
  }
}

function refuse(tenant: Tenant, reason: LoginFailureReason): never {
  throw new LoginFailedError(reason, `the login is refused: ${reason}`, { tenant: tenant.key });
}
