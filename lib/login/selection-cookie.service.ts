import { Inject, Injectable } from '@nestjs/common';
import * as v from 'valibot';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { isSecure, OwnCookies } from '../browser/cookies.js';
import type { HttpContext } from '../browser/http-context.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../config/check-options.js';
import { personOf, type FoundIdentity } from './identity.js';

/** Longest value of the cookie, in bytes. */
const MAX_BYTES = 500;

const MAX_SELECTIONS = 20;

/** Whose selections they are, by {@link personOf}; then pairs of an event and the exhibitor chosen for it, the newest last. */
const selectionCookie = v.pipe(
  v.string(),
  v.maxLength(MAX_BYTES),
  v.transform((encoded) => Buffer.from(encoded, 'base64url').toString()),
  v.parseJson(),
  v.tuple([v.string(), v.array(v.tuple([v.string(), v.string()]))]),
);

type Selections = v.InferOutput<typeof selectionCookie>[1];

/**
 * The exhibitors that a user has chosen, by event, in a cookie of their own. It is not sealed: each request checks a choice against
 * the user's own exhibitors.
 */
@Injectable()
export class SelectionCookie {
  readonly #cookies: OwnCookies;
  readonly #ttl: number;

  constructor(@Inject(CHECKED_OPTIONS) { settings }: CheckedOptions) {
    this.#cookies = new OwnCookies(settings.cookies);
    this.#ttl = settings.cookies.absoluteTtl;
  }

  /** Id of the exhibitor that the user has chosen for an event. */
  read(http: HttpContext, session: FoundIdentity, eventId: string): string | undefined {
    return this.#selections(http, session).find(([event]) => event === eventId)?.[1];
  }

  /**
   * Keeps the choice for an event; `undefined` removes it. The oldest ones that do not fit go.
   *
   * @throws {ExhibitorError} `invalid_argument` with a bearer token, and for an id that fits no cookie
   */
  write(http: HttpContext, session: FoundIdentity, eventId: string, exhibitorId: string | undefined): void {
    if (session.mode === 'bearer') {
      throw new ExhibitorError(
        'invalid_argument',
        "a selection cannot be stored with session 'bearer': send exhibitorId with each request",
      );
    }
    const selections = this.#selections(http, session).filter(([event]) => event !== eventId);
    if (exhibitorId !== undefined) {
      selections.push([eventId, exhibitorId]);
    }
    const attributes = { secure: isSecureHost(session) };
    if (selections.length === 0) {
      this.#cookies.clear(http, 'selection', attributes);
    } else {
      const encoded = encodeToFit(session, selections.slice(-MAX_SELECTIONS));
      this.#cookies.set(http, 'selection', encoded, attributes, this.#ttl);
    }
  }

  /** Anything that is not ours counts as none chosen. */
  #selections(http: HttpContext, session: FoundIdentity): Selections {
    const sent = this.#cookies.read(http, 'selection', isSecureHost(session));
    if (sent === undefined || session.mode === 'bearer') {
      return [];
    }
    const { success, output } = v.safeParse(selectionCookie, sent);
    return success && output[0] === personOf(session.identity) ? output[1] : [];
  }
}

/** Without the oldest that do not fit. */
function encodeToFit(session: FoundIdentity, selections: Selections): string {
  if (selections.length === 0) {
    throw new ExhibitorError('invalid_argument', 'exhibitorId: is too long to be kept in a cookie', {
      tenant: session.tenant.key,
    });
  }
  const json = JSON.stringify([personOf(session.identity), selections]);
  const encoded = Buffer.from(json).toString('base64url');
  return encoded.length <= MAX_BYTES ? encoded : encodeToFit(session, selections.slice(1));
}

function isSecureHost({ tenant }: FoundIdentity): boolean {
  return isSecure(tenant.login?.redirectUri);
}
