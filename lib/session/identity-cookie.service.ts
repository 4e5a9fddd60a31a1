import { Inject, Injectable } from '@nestjs/common';
import { LoginFailedError } from '../errors/login-failed.error.js';
import {
  cookieNames,
  fitCookies,
  isSecure,
  receivedCookies,
  setCookie,
  type CookieAttributes,
  type CookieNames,
} from '../http/cookies.js';
import type { HttpContext } from '../http/http-context.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import { isRecord } from '../model/json-values.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import { Sealer, type Unsealed } from '../store/sealer.service.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import { IdentityExtensions } from './identity-extensions.service.js';
import { KeptClaims } from './kept-claims.js';
import { OpenedCookies, type OpenedCookie } from './opened-cookies.js';
import { parseIdentity, type IdentityData } from './stored-identity.js';
import { parseSelections, type Selections } from './stored-selections.js';

/** Largest sealed identity, in bytes. */
const MAX_SEALED = 3_000;

export interface CookieContent extends OpenedCookie {
  /** True where it was sent with the `__Host-` prefix. */
  secure: boolean;
}

/** The identity and the selections of a user, in one sealed cookie. */
@Injectable()
export class IdentityCookie {
  readonly #names: CookieNames;
  readonly #sameSite: CookieAttributes['sameSite'];
  readonly #claims: KeptClaims;
  readonly #opened: OpenedCookies;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(Sealer) private readonly sealer: Sealer,
    @Inject(Clock) private readonly clock: Clock,
    @Inject(IdentityExtensions) private readonly extensions: IdentityExtensions,
  ) {
    this.#names = cookieNames(settings.cookies.name);
    this.#sameSite = settings.cookies.sameSite;
    this.#opened = new OpenedCookies(clock);
    this.#claims = new KeptClaims(clock);
  }

  async read(http: HttpContext): Promise<CookieContent | undefined> {
    for (const { value, secure } of receivedCookies(http, this.#names.identity)) {
      const extension = this.extensions.received(http, secure);
      const sealed = extension === undefined ? value : `${value} ${extension}`;
      const opened = this.#opened.get(sealed) ?? (await this.#openAndKeep(value, extension));
      if (opened !== undefined && opened.endsAt > this.clock.epochMs()) {
        return { secure, ...opened };
      }
    }
    return undefined;
  }

  /** Every identity that the request carries, valid or not, with the end of its login: what a logout must deny. */
  async identities(http: HttpContext): Promise<IdentityData[]> {
    const cookies = receivedCookies(http, this.#names.identity);
    const opened = await Promise.all(cookies.map(({ value }) => this.#open(value)));
    return opened.flatMap((content) =>
      content === undefined ? [] : [{ ...content.identity, expiresAt: content.endsAt }],
    );
  }

  /** @param endsAt end of the login */
  async write(
    http: HttpContext,
    tenant: Tenant,
    identity: ExhibitorIdentity,
    selections: Selections,
    endsAt: number,
  ): Promise<void> {
    const ttl = endsAt - this.clock.epochMs();
    const { returnTo: _once, ...kept } = identity;
    const sealed = await this.#sealToFit(tenant, kept, selections, endsAt);
    const attributes = { secure: isSecure(tenant.login?.redirectUri), sameSite: this.#sameSite };
    setCookie(http, this.#names.identity, sealed, attributes, ttl);
    fitCookies(http, this.#names, attributes);
  }

  async #openAndKeep(sealed: string, extension: string | undefined): Promise<OpenedCookie | undefined> {
    const opened = await this.#open(sealed);
    const unsealed = opened && extension && (await this.sealer.unseal('extension', extension));
    if (unsealed) {
      const extended = extendedBy(opened, unsealed);
      this.#opened.keep(`${sealed} ${extension}`, extended);
      return extended;
    }
    if (opened !== undefined) {
      this.#opened.keep(sealed, opened);
    }
    return opened;
  }

  async #open(sealed: string): Promise<OpenedCookie | undefined> {
    return parseContent(await this.sealer.unseal('identity', sealed));
  }

  async #sealToFit(
    tenant: Tenant,
    identity: ExhibitorIdentity,
    selections: Selections,
    endsAt: number,
  ): Promise<string> {
    const chosen = this.#claims.chosen(tenant, identity.claims);
    const whole = await this.#seal({ ...identity, claims: chosen }, selections, endsAt);
    if (whole.length <= MAX_SEALED) {
      return whole;
    }
    const claims = this.#claims.fewest(tenant, chosen);
    // The oldest selections go next.
    for (let oldest = 0; oldest <= selections.length; oldest += 1) {
      const sealed = await this.#seal({ ...identity, claims }, selections.slice(oldest), endsAt);
      if (sealed.length <= MAX_SEALED) {
        return sealed;
      }
    }
    // The browser would ignore the cookie without an error, and ask the user to log in again and again.
    throw new LoginFailedError('provider', 'the identity is too large for a cookie', { tenant: tenant.key });
  }

  #seal(identity: ExhibitorIdentity, selections: Selections, endsAt: number): Promise<string> {
    return this.sealer.seal('identity', { identity, selections }, endsAt - this.clock.epochMs());
  }
}

function parseContent(unsealed: Unsealed | undefined): OpenedCookie | undefined {
  if (unsealed === undefined || !isRecord(unsealed.value)) {
    return undefined;
  }
  const { until: endsAt } = unsealed;
  const { identity: stored, selections } = unsealed.value;
  const identity = parseIdentity(stored);
  return identity && { identity, selections: parseSelections(selections), endsAt };
}

/** The content with the end that an extension sets. One of another identity sets none. */
function extendedBy(opened: OpenedCookie, { value: id, until }: Unsealed): OpenedCookie {
  const { identity } = opened;
  const expiresAt = Math.max(identity.expiresAt, Math.min(until, opened.endsAt));
  return id === identity.id ? { ...opened, identity: { ...identity, expiresAt } } : opened;
}
