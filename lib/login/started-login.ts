import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import * as v from 'valibot';
import {
  isSecure,
  loginCookieOf,
  OwnCookies,
  type CookieAttributes,
  type OwnCookie,
} from '../browser/cookies.js';
import type { HttpContext } from '../browser/http-context.js';
import type { ExhibitorSettings } from '../config/exhibitor-settings.js';
import type { ProblemLog } from '../config/problems/problem-log.service.js';
import { isHybrid, type BrowserLogin, type Tenant } from '../config/tenant.js';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { digestOf, shortDigestOf } from '../model/digest.js';
import type { Sealer } from '../store/sealer.service.js';
import { normalizeReturnTo } from './return-to.js';

const sealedLogin = v.object({
  /** 128 random bits. A `state` has several spellings: it is spent by this id. */
  id: v.string(),
  tenant: v.string(),
  /** See {@link clientDigest}. */
  client: v.string(),
  /** Whether `redirectUri` is https, and so the name of its cookie begins with `__Host-`. */
  https: v.boolean(),
  responseType: v.picklist(['code', 'code id_token', 'code token id_token']),
  eventId: v.optional(v.string()),
  /** Sealed as it was given: normalized, it may be three times as long. */
  returnTo: v.optional(v.pipe(v.string(), v.transform(normalizeReturnTo))),
  /** Seconds; the smaller of the option and the parameter of this login. */
  maxAge: v.optional(v.number()),
  /** Whether a guard led the browser to this login, which must not happen twice in a row. */
  led: v.optional(v.boolean()),
  /** Logins at this tenant that this one replaces. */
  former: v.array(v.object({ id: v.string(), endsAt: v.number(), person: v.string() })),
  /** In ms since 1970. */
  startedAt: v.number(),
  /** SHA-256 of the proof that the browser has. */
  proof: v.string(),
});

/** A started login as its `state` has it. */
type SealedLogin = v.InferOutput<typeof sealedLogin>;

/** A started login whose `state` opened, `endsAt` in ms since 1970: it may be over, used, or of another browser. */
export type OpenedLogin = SealedLogin & { endsAt: number; state: string };

/** What binds ID token and code to the browser. It follows from the proof, so that nothing secret is in a `state`. */
export interface LoginSecrets {
  nonce: string;
  verifier: string;
}

/** A started login of the browser that sent the request. */
export type ProvenLogin = OpenedLogin & LoginSecrets;

/** What the authorization request of a started login names. */
export type LoginRequest = LoginSecrets & { state: string; maxAge?: number | undefined };

/** Longest `state`, in characters: some providers refuse longer ones. */
const MAX_STATE = 1_024;

/** Login cookies of a browser from which on the oldest go, so that no proxy refuses its requests, and how many go. */
const MANY_COOKIES = 16;
const CLEARED_COOKIES = 4;

/** In base64url. */
const random = (bytes: number): string => randomBytes(bytes).toString('base64url');

/** 256 random bits: neither nonce nor verifier (RFC 7636 §7.1) can be guessed. */
export const createProof = (): string => random(32);

export function secretsOf(proof: string): LoginSecrets {
  const derived = (label: string): string => createHmac('sha256', proof).update(label).digest('base64url');
  return { nonce: derived('nonce'), verifier: derived('verifier') };
}

/** Names issuer, client and `redirectUri` of a login: all of them are too long for a `state`. */
export function clientDigest({ issuer, clientId, redirectUri }: BrowserLogin): string {
  return shortDigestOf(JSON.stringify([issuer, clientId, redirectUri]));
}

/** Logins that were started: each is sealed in its `state`, and a cookie of its own proves the browser. Nothing is kept here. */
export class StartedLogins {
  readonly #cookies: OwnCookies;

  constructor(
    private readonly sealer: Sealer,
    private readonly log: ProblemLog,
    private readonly settings: ExhibitorSettings['cookies'],
  ) {
    this.#cookies = new OwnCookies(settings);
  }

  /**
   * Seals a login, and gives the browser its cookie.
   *
   * @throws {ExhibitorError} `invalid_argument` where event and tenant alone, with what JSON escapes, are too long
   */
  async begin(
    http: HttpContext,
    tenant: Tenant,
    client: BrowserLogin,
    start: Pick<SealedLogin, 'eventId' | 'returnTo' | 'maxAge' | 'led' | 'former' | 'startedAt'>,
  ): Promise<LoginRequest> {
    const proof = createProof();
    const login: SealedLogin = {
      ...start,
      tenant: tenant.key,
      client: clientDigest(client),
      https: isSecure(client.redirectUri),
      responseType: client.responseType,
      id: random(16),
      proof: digestOf(proof),
    };
    const state = await this.#sealToFit(tenant, login);
    const attributes = this.#attributesOf(login);
    const sent = this.#cookies.sentLogins(http, login.https);
    if (sent.length >= MANY_COOKIES) {
      sent.slice(0, CLEARED_COOKIES).forEach((cookie) => this.#cookies.clear(http, cookie, attributes));
    }
    this.#cookies.set(http, cookieOf(login), proof, attributes, this.settings.loginTtl);
    return { ...secretsOf(proof), state, maxAge: login.maxAge };
  }

  async open(state: string): Promise<OpenedLogin | undefined> {
    const unsealed = await this.sealer.unseal('login', state);
    const { success, output } = v.safeParse(sealedLogin, unsealed?.value);
    return success && unsealed !== undefined ? { ...output, endsAt: unsealed.until, state } : undefined;
  }

  /** The secrets of this login, where the browser has started it; `undefined` for any other browser. */
  secretsIn(http: HttpContext, login: OpenedLogin): LoginSecrets | undefined {
    // Without `__Host-`, a sibling domain could set a cookie of its own (RFC 9700 §4.7): the state says which name counts.
    const proof = this.#cookies.read(http, cookieOf(login), login.https) ?? '';
    const [sent, known] = [Buffer.from(digestOf(proof)), Buffer.from(login.proof)];
    return sent.length === known.length && timingSafeEqual(sent, known) ? secretsOf(proof) : undefined;
  }

  clear(http: HttpContext, login: OpenedLogin): void {
    this.#cookies.clear(http, cookieOf(login), this.#attributesOf(login));
  }

  /** Without its `returnTo` where it is too long, then without former logins: those that its callback carries end in any case. */
  async #sealToFit(tenant: Tenant, login: SealedLogin): Promise<string> {
    for (const [dropped, less] of [
      ['', {}],
      ['returnTo', { returnTo: undefined }],
      ['returnTo and the identities that it replaces', { returnTo: undefined, former: [] }],
    ] as const) {
      const state = await this.sealer.seal('login', { ...login, ...less }, this.settings.loginTtl);
      if (state.length <= MAX_STATE) {
        if (dropped !== '') {
          const message = `a login is started without ${dropped}: its state would be longer than ${MAX_STATE} characters`;
          this.log.report(tenant, { cause: `state ${dropped}`, options: [], message, isUnverified: true });
        }
        return state;
      }
    }
    throw new ExhibitorError('invalid_argument', 'eventId is too long for a login at this tenant', {
      tenant: tenant.key,
    });
  }

  /** A form_post is a cross-site request, and so is each in a frame of another site: only `SameSite=None` is sent with it. */
  #attributesOf(login: Pick<SealedLogin, 'https' | 'responseType'>): CookieAttributes {
    const isCrossSite = isHybrid(login) || this.settings.sameSite === 'none';
    return { secure: login.https, sameSite: isCrossSite ? 'none' : 'lax' };
  }
}

function cookieOf({ id }: SealedLogin): OwnCookie {
  return loginCookieOf(digestOf(id));
}
