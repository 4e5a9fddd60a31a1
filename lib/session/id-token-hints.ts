import {
  clearHeldCookies,
  fitCookies,
  isSecure,
  receivedCookie,
  setCookie,
  type CookieAttributes,
  type CookieNames,
} from '../http/cookies.js';
import type { HttpContext } from '../http/http-context.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import { isRecord } from '../model/json-values.js';
import type { Sealer } from '../store/sealer.service.js';
import type { Tenant } from '../tenants/tenant.js';
import type { Clock } from '../time/clock.js';
import { readIdToken, writeIdToken } from './host-session.js';

/** Largest sealed ID token, in bytes: cookies of the module share a budget, and it becomes a part of an address. */
const MAX_SEALED = 2_500;

export type BrowserMode = 'cookie' | 'host';

/**
 * ID tokens of logins with `endSession`, for the logout at the provider. Each is sealed together with the id of its identity,
 * in a cookie of its own or in the host's session. One that is too large is not kept.
 */
export class IdTokenHints {
  constructor(
    private readonly sealer: Sealer,
    private readonly clock: Clock,
    private readonly names: CookieNames,
    private readonly sameSite: CookieAttributes['sameSite'],
  ) {}

  /** Keeps the ID token of a new login, until its end, where its tenant has `endSession`. It replaces that of the former login. */
  async keep(
    http: HttpContext,
    mode: BrowserMode,
    { login }: Tenant,
    { id, expiresAt }: Pick<ExhibitorIdentity, 'id' | 'expiresAt'>,
    idToken: string,
  ): Promise<void> {
    const ttl = expiresAt - this.clock.epochMs();
    const sealed =
      login?.endSession === true ? await this.sealer.seal('id-token', { id, idToken }, ttl) : undefined;
    const kept = sealed !== undefined && sealed.length <= MAX_SEALED ? sealed : undefined;
    if (mode === 'host') {
      writeIdToken(http, kept);
      return;
    }
    if (kept === undefined) {
      clearHeldCookies(http, this.names.idToken, this.sameSite);
    } else {
      const attributes = { secure: isSecure(login?.redirectUri), sameSite: this.sameSite };
      setCookie(http, this.names.idToken, kept, attributes, ttl);
      fitCookies(http, this.names, attributes);
    }
  }

  /**
   * The ID token of this identity, if it was kept.
   *
   * @param secure true where the identity came in a cookie with `__Host-`: that of the ID token must have it too
   */
  async read(http: HttpContext, mode: BrowserMode, id: string, secure: boolean): Promise<string | undefined> {
    const sealed = mode === 'host' ? readIdToken(http) : receivedCookie(http, this.names.idToken, secure);
    const content = sealed === undefined ? undefined : await this.sealer.open('id-token', sealed);
    if (isRecord(content) && content['id'] === id && typeof content['idToken'] === 'string') {
      return content['idToken'];
    }
    return undefined;
  }
}
