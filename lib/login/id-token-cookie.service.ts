import { Inject, Injectable } from '@nestjs/common';
import { isSecure, OwnCookies } from '../browser/cookies.js';
import type { HttpContext } from '../browser/http-context.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import { unverified } from '../oidc/verify-signature.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../config/check-options.js';
import { Sealer } from '../store/sealer.service.js';
import type { Tenant } from '../config/tenant.js';
import { CLOCK_MARGIN } from './shared-times.js';
import { parseIdentity } from './identity.js';

/** Largest sealed ID token, in bytes: proxies accept header lines of 8 kB, and it becomes a part of an address. */
const MAX_BYTES = 2_000;

/** An ID token and its identity: whole at the login; from the cookie, as much as a logout needs. */
export interface KeptIdToken {
  identity: ExhibitorIdentity;
  idToken: string;
}

/** The ID token of an identity, for the logout at the provider: sealed in a cookie of its own, which may outlive the identity. */
@Injectable()
export class IdTokenCookie {
  readonly #ttl: number;
  readonly #cookies: OwnCookies;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(Sealer) private readonly sealer: Sealer,
  ) {
    this.#ttl = settings.cookies.absoluteTtl;
    this.#cookies = new OwnCookies(settings.cookies);
  }

  async read(http: HttpContext): Promise<KeptIdToken | undefined> {
    for (const { value, secure } of this.#cookies.received(http, 'id-token')) {
      const content: Record<string, unknown> = Object(await this.sealer.open('id-token', value));
      const idToken = String(content['idToken']);
      const { iss: issuer, sub: subject } = unverified(idToken, 'claims');
      // Issuer and subject are those of the token, which is sealed. No logout needs the address.
      const identity = parseIdentity({ issuer, subject, email: '', ...content });
      if (identity !== undefined && secure === isSecure(identity.redirectUri)) {
        return { identity, idToken };
      }
    }
    return undefined;
  }

  /** Sets the cookie of a new login, with `endSession` and unless it is too large. The cookie of a former login goes in any case. */
  async write(
    http: HttpContext,
    { login }: Tenant,
    identity: ExhibitorIdentity,
    idToken: string,
  ): Promise<void> {
    this.#cookies.clearAll(http, 'id-token');
    if (login?.endSession !== true) {
      return;
    }
    const { id, tenant, clientId, redirectUri } = identity;
    const content = { id, tenant, clientId, redirectUri, idToken };
    const sealed = await this.sealer.seal('id-token', content, this.#ttl + CLOCK_MARGIN);
    if (sealed.length <= MAX_BYTES) {
      this.#cookies.set(http, 'id-token', sealed, { secure: isSecure(redirectUri) }, this.#ttl);
    }
  }
}
