import { Inject, Injectable } from '@nestjs/common';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { isSecure, OwnCookies } from '../browser/cookies.js';
import type { HttpContext } from '../browser/http-context.js';
import { shortDigestOf } from '../model/digest.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../config/check-options.js';
import { personOf, type FormerIdentity, type FoundIdentity, type KeptIdentity } from './identity.js';

/** Longest value of the cookie, in bytes. */
const MAX_BYTES = 500;

const MAX_SELECTIONS = 20;

/**
 * A choice, as the cookie has it:
 *
 * | alone, it         | tenant           | event                        | exhibitor          |
 * | ----------------- | ---------------- | ---------------------------- | ------------------ |
 * | fits in           | its key          | its id                       | its id             |
 * | would be too long | {@link DIGESTED} | a digest of tenant and event | a digest of its id |
 */
type Selection = [tenant: string, event: string, exhibitor: string];

/** In the place of the key of a tenant: no key is empty. */
const DIGESTED = '';

/**
 * The exhibitors that a user has chosen, by tenant and event, in a cookie of their own: a list in base64url JSON, the newest last. It is
 * not sealed: each request checks a choice against the user's own exhibitors.
 */
@Injectable()
export class SelectionCookie {
  readonly #cookies: OwnCookies;
  readonly #ttl: number;

  constructor(@Inject(CHECKED_OPTIONS) { settings }: CheckedOptions) {
    this.#cookies = new OwnCookies(settings.cookies);
    this.#ttl = settings.cookies.absoluteTtl;
  }

  /** Tells whether an id is that of the exhibitor which the user has chosen for an event; `undefined` where none is chosen. */
  read(
    http: HttpContext,
    { tenant, mode }: FoundIdentity,
    eventId: string,
  ): ((id: string) => boolean) | undefined {
    if (mode === 'bearer') {
      return undefined;
    }
    const isOfEvent = isAbout(tenant.key, eventId);
    const selection = this.#selections(http, isSecureHost(tenant)).find(isOfEvent);
    if (selection === undefined) {
      return undefined;
    }
    const [key, , chosen] = selection;
    return (id) => (key === DIGESTED ? shortDigestOf(id) : id) === chosen;
  }

  /**
   * Keeps the choice for an event; `undefined` removes it. The oldest ones that do not fit go.
   *
   * @throws {ExhibitorError} `invalid_argument` with a bearer token
   */
  write(http: HttpContext, { tenant, mode }: FoundIdentity, eventId: string, exhibitorId?: string): void {
    if (mode === 'bearer') {
      throw new ExhibitorError(
        'invalid_argument',
        "a selection cannot be stored with session 'bearer': send exhibitorId with each request",
      );
    }
    const secure = isSecureHost(tenant);
    const isOfEvent = isAbout(tenant.key, eventId);
    const others = this.#selections(http, secure).filter((one) => !isOfEvent(one));
    const chosen = exhibitorId === undefined ? [] : [selectionOf(tenant.key, eventId, exhibitorId)];
    const encoded = newestThatFit([...others, ...chosen]);
    if (encoded === undefined) {
      this.#cookies.clear(http, 'selection', { secure });
    } else {
      this.#cookies.set(http, 'selection', encoded, { secure }, this.#ttl);
    }
  }

  /**
   * Removes what another person than the user of this new identity has chosen in this browser.
   *
   * @param kept identities that the callback carries, of any tenant: a person who goes from one to another keeps the choices at both
   * @param former identities of this tenant that the start of the login carried: a callback by `form_post` from another site brings no
   * cookie
   */
  clearOfAnother(
    http: HttpContext,
    identity: ExhibitorIdentity,
    kept: readonly KeptIdentity[],
    former: readonly FormerIdentity[],
  ): void {
    const isSame =
      kept.some(
        ({ identity: { issuer, subject } }) => issuer === identity.issuer && subject === identity.subject,
      ) || former.some(({ person }) => person === personOf(identity));
    if (isSame) {
      return;
    }
    this.#cookies.clearAll(http, 'selection');
    if (former.length > 0) {
      // The cookie may be there, and not have been sent.
      this.#cookies.clear(http, 'selection', { secure: isSecure(identity.redirectUri) });
    }
  }

  /** Anything that is not ours counts as none chosen. */
  #selections(http: HttpContext, secure: boolean): Selection[] {
    const sent = this.#cookies.read(http, 'selection', secure);
    return sent === undefined || sent.length > MAX_BYTES ? [] : parseSelections(sent);
  }
}

const isAbout =
  (tenantKey: string, eventId: string) =>
  ([tenant, event]: Selection): boolean =>
    tenant === DIGESTED
      ? event === digestOfEvent(tenantKey, eventId)
      : tenant === tenantKey && event === eventId;

function selectionOf(tenantKey: string, eventId: string, exhibitorId: string): Selection {
  const plain: Selection = [tenantKey, eventId, exhibitorId];
  return newestThatFit([plain]) === undefined
    ? [DIGESTED, digestOfEvent(tenantKey, eventId), shortDigestOf(exhibitorId)]
    : plain;
}

function digestOfEvent(tenantKey: string, eventId: string): string {
  return shortDigestOf(JSON.stringify([tenantKey, eventId]));
}

function parseSelections(encoded: string): Selection[] {
  try {
    const list: unknown = JSON.parse(Buffer.from(encoded, 'base64url').toString());
    return Array.isArray(list) && list.every(isSelection) ? list : [];
  } catch {
    return [];
  }
}

function isSelection(value: unknown): value is Selection {
  return Array.isArray(value) && value.length === 3 && value.every((one) => typeof one === 'string');
}

/** The list as the cookie has it; `undefined` where not even the newest fits, and for none. */
function newestThatFit(selections: readonly Selection[]): string | undefined {
  for (let count = Math.min(selections.length, MAX_SELECTIONS); count > 0; count -= 1) {
    const encoded = Buffer.from(JSON.stringify(selections.slice(-count))).toString('base64url');
    if (encoded.length <= MAX_BYTES) {
      return encoded;
    }
  }
  return undefined;
}

function isSecureHost({ login }: FoundIdentity['tenant']): boolean {
  return isSecure(login?.redirectUri);
}
