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
import { isRecord } from '../model/json-values.js';
import type { Sealer } from '../store/sealer.service.js';
import type { Tenant } from '../tenants/tenant.js';
import type { Clock } from '../time/clock.js';

/** Largest sealed ID token, in bytes: cookies of the module share a budget, and it becomes a part of an address. */
const MAX_SEALED = 2_500;

/**
 * ID tokens of logins with `endSession`, for the logout at the provider. Each is sealed together with the id of its identity, in a
 * cookie of its own. One that is too large is not kept.
 */
export class IdTokenCookie {
  constructor(
    private readonly sealer: Sealer,
    private readonly clock: Clock,
    private readonly names: CookieNames,
    private readonly sameSite: CookieAttributes['sameSite'],
  ) {}

  /**
   * Keeps the ID token of a new login, where its tenant has `endSession`. It replaces that of the former login.
   *
   * @param id of the identity
   * @param endsAt end of the login, in ms since 1970
   */
  async write(
    http: HttpContext,
    { login }: Tenant,
    id: string,
    endsAt: number,
    idToken: string,
  ): Promise<void> {
    const ttl = endsAt - this.clock.epochMs();
    const sealed =
      login?.endSession === true ? await this.sealer.seal('id-token', { id, idToken }, ttl) : undefined;
    if (sealed === undefined || sealed.length > MAX_SEALED) {
      clearHeldCookies(http, this.names.idToken, this.sameSite);
      return;
    }
    const attributes = { secure: isSecure(login?.redirectUri), sameSite: this.sameSite };
    setCookie(http, this.names.idToken, sealed, attributes, ttl);
    fitCookies(http, this.names, attributes);
  }

  /**
   * The ID token of the identity with this id, if it was kept.
   *
   * @param secure true where the cookies of its host have the `__Host-` prefix
   */
  async read(http: HttpContext, id: string, secure: boolean): Promise<string | undefined> {
    const sealed = receivedCookie(http, this.names.idToken, secure);
    const content = sealed === undefined ? undefined : await this.sealer.open('id-token', sealed);
    if (isRecord(content) && content['id'] === id && typeof content['idToken'] === 'string') {
      return content['idToken'];
    }
    return undefined;
  }
}
