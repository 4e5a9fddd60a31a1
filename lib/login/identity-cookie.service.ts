/**
 * The ends of an identity in a cookie:
 *
 * | end                  | when                                                | what for                                            |
 * | -------------------- | --------------------------------------------------- | --------------------------------------------------- |
 * | `until` of the seal  | `identityTtl` after it was sealed, at most `endsAt` | becomes `identity.expiresAt` when it is opened      |
 * | `identity.expiresAt` | as the seal                                         | no request after it has this user; hosts read it    |
 * | `endsAt`             | `absoluteTtl` after the login; it never changes     | sealed with the identity: no new seal ends later    |
 * | `Max-Age`            | `endsAt`                                            | a logout finds the cookie of a user who was idle    |
 */
import { Inject, Injectable } from '@nestjs/common';
import { isSecure, OwnCookies } from '../browser/cookies.js';
import { isWithoutUser } from '../browser/fetch-metadata.js';
import type { HttpContext } from '../browser/http-context.js';
import { digestOf } from '../model/digest.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import { freezeJson } from '../model/json-values.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../config/check-options.js';
import type { ExhibitorSettings } from '../config/exhibitor-settings.js';
import { described } from '../config/problems/claim-text.js';
import { ProblemLog } from '../config/problems/problem-log.service.js';
import { EndedLogins } from './ended-logins.service.js';
import { Sealer, type Unsealed } from '../store/sealer.service.js';
import type { Tenant } from '../config/tenant.js';
import { Clock } from '../call/clock.js';
import { createCache, type ExpiringCache } from '../call/expiring-cache.js';
import { keptClaims, parseIdentity, type FoundIdentity, type KeptIdentity } from './identity.js';

/** Largest sealed identity, in bytes. */
const MAX_SEALED = 3_000;

/** Estimated bytes of heap of all opened cookies together. One takes about three times its JSON. */
const MAX_OPENED_BYTES = 16 * 1024 * 1024;

/** The identity of a user, in a sealed cookie. */
@Injectable()
export class IdentityCookie {
  readonly #settings: ExhibitorSettings['cookies'];
  readonly #cookies: OwnCookies;
  /** By the digest of the sealed value: the memory of the process holds no cookie that could be used. Frozen, since requests share it. */
  readonly #opened: ExpiringCache<KeptIdentity>;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(Sealer) private readonly sealer: Sealer,
    @Inject(EndedLogins) private readonly ended: EndedLogins,
    @Inject(Clock) private readonly clock: Clock,
    @Inject(ProblemLog) private readonly log: ProblemLog,
  ) {
    this.#settings = settings.cookies;
    this.#cookies = new OwnCookies(settings.cookies);
    this.#opened = createCache(clock, { maxSize: MAX_OPENED_BYTES });
  }

  /** The identity of the first cookie that has not expired. Its tenant and its logout are not checked yet. */
  async read(http: HttpContext): Promise<KeptIdentity | undefined> {
    const now = this.clock.epochMs();
    return (await this.readAll(http)).find(({ identity }) => identity.expiresAt > now);
  }

  /**
   * The identities of all cookies that open and have the prefix that their own `redirectUri` asks for (a sibling domain can set a cookie
   * without it), expired ones included: what a logout must end.
   */
  async readAll(http: HttpContext): Promise<KeptIdentity[]> {
    const identities: KeptIdentity[] = [];
    for (const { value, secure } of this.#cookies.received(http, 'identity')) {
      const digest = digestOf(value);
      const opened = this.#opened.get(digest) ?? (await this.#open(value, digest));
      if (opened !== undefined && secure === isSecure(opened.identity.redirectUri)) {
        identities.push(opened);
      }
    }
    return identities;
  }

  /** Sets the cookie of a new login. */
  async write(http: HttpContext, tenant: Tenant, identity: ExhibitorIdentity): Promise<void> {
    const { returnTo: _once, ...kept } = identity;
    const { absoluteTtl } = this.#settings;
    const sealed = await this.#sealToFit(tenant, kept, this.clock.epochMs() + absoluteTtl);
    this.#cookies.set(http, 'identity', sealed, { secure: isSecure(kept.redirectUri) }, absoluteTtl);
  }

  /**
   * Keeps an active user logged in: once half of `identityTtl` has passed, the identity is sealed anew, until `absoluteTtl` after the
   * login. Not where this reply sets the cookie already, nor where the same person has logged in anew, whose new identity must stay.
   */
  async renew(http: HttpContext, { identity, endsAt = 0 }: FoundIdentity): Promise<void> {
    const { identityTtl, absoluteTtl } = this.#settings;
    // By default both times are the same, and the first seal lasts to the end.
    if (absoluteTtl <= identityTtl || identity.expiresAt >= endsAt) {
      return;
    }
    const now = this.clock.epochMs();
    const isDue = identity.expiresAt - now <= identityTtl / 2;
    if (!isDue || isWithoutUser(http) || this.ended.ends.isKnown(identity.id)) {
      return;
    }
    const attributes = { secure: isSecure(identity.redirectUri), isRenewed: true };
    if (!this.#cookies.isSet(http, 'identity', attributes)) {
      const expiresAt = Math.min(now + identityTtl, endsAt);
      const sealed = await this.#seal({ ...identity, expiresAt }, endsAt);
      this.#cookies.set(http, 'identity', sealed, attributes, endsAt - now);
    }
  }

  /** Remembers a cookie that opens and has not expired. Forged cookies take no place. */
  async #open(value: string, digest: string): Promise<KeptIdentity | undefined> {
    const opened = parseContent(await this.sealer.unseal('identity', value));
    const ttl = (opened?.identity.expiresAt ?? 0) - this.clock.epochMs();
    if (opened !== undefined && ttl > 0) {
      freezeJson(opened);
      this.#opened.set(digest, opened, { ttl, size: 3 * Buffer.byteLength(JSON.stringify(opened)) });
    }
    return opened;
  }

  async #sealToFit(tenant: Tenant, identity: ExhibitorIdentity, endsAt: number): Promise<string> {
    const whole = await this.#seal(identity, endsAt);
    if (whole.length <= MAX_SEALED) {
      return whole;
    }
    const claims = keptClaims(identity.claims);
    const sealed = await this.#seal({ ...identity, claims }, endsAt);
    if (sealed.length <= MAX_SEALED) {
      this.log.report(tenant, {
        cause: 'claims',
        options: ['login.keepClaims'],
        message: 'the identity is too large for a cookie: its claims are removed. Name the ones you need',
        received: `claims ${described(Object.keys(identity.claims))}`,
        isWarning: true,
      });
      return sealed;
    }
    // The browser would ignore the cookie without an error, and ask the user to log in again and again.
    const detail = 'the identity is too large for a cookie, also without claims';
    throw this.log.refusal(tenant, 'login', { reason: 'provider', detail });
  }

  #seal({ expiresAt, ...identity }: ExhibitorIdentity, endsAt: number): Promise<string> {
    return this.sealer.seal('identity', { identity, endsAt }, expiresAt - this.clock.epochMs());
  }
}

function parseContent(unsealed: Unsealed | undefined): KeptIdentity | undefined {
  const value: Record<string, unknown> = Object(unsealed?.value);
  const identity = parseIdentity(value['identity']);
  const { endsAt } = value;
  return unsealed && identity && typeof endsAt === 'number'
    ? { identity: { ...identity, expiresAt: unsealed.until }, endsAt }
    : undefined;
}
