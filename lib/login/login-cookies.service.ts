import { createHash } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import { Sealer } from '../store/sealer.service.js';
import {
  clearCookie,
  receivedCookies,
  setCookie,
  type CookieAttributes,
  type ReceivedCookie,
} from '../http/cookies.js';
import type { HttpContext } from '../http/http-context.js';
import { parsePendingLogin, type PendingLogin } from './pending-login.js';

const PREFIX = 'exhibitor-login-';

/** Pending logins a browser may have: each is about 1.5 kB of request header. */
const MAX_PENDING = 6;

/**
 * Pending logins, each in a sealed cookie of its own that is named after its time of birth and its state, so that
 * tabs do not disturb each other and no session is needed.
 */
@Injectable()
export class LoginCookies {
  readonly #ttl: number;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(Sealer) private readonly sealer: Sealer,
  ) {
    this.#ttl = settings.cookies.loginTtl;
  }

  /** Keeps a pending login in the browser and drops the oldest ones beyond the limit. */
  async keep(http: HttpContext, login: PendingLogin): Promise<void> {
    const pending = receivedCookies(http, PREFIX).toSorted((a, b) => birthOf(b) - birthOf(a));
    for (const old of pending.slice(MAX_PENDING - 1)) {
      clearCookie(http, old.name, attributesOf(login, old));
    }
    const name = `${PREFIX}${login.startedAt.toString(36)}-${digest(login.state)}`;
    setCookie(http, name, await this.sealer.seal('login', login, this.#ttl), attributesOf(login), this.#ttl);
  }

  /** The pending login of this state in this browser, where there is one. */
  async find(http: HttpContext, state: string): Promise<PendingLogin | undefined> {
    const suffix = `-${digest(state)}`;
    for (const cookie of receivedCookies(http, PREFIX)) {
      if (!cookie.name.endsWith(suffix)) {
        continue;
      }
      const login = parsePendingLogin(await this.sealer.open('login', cookie.value));
      // Without the prefix check a sibling domain could plant a login of its own (RFC 9700 §4.7).
      if (login?.state === state && cookie.secure === isSecure(login)) {
        return login;
      }
    }
    return undefined;
  }

  /** Ends a pending login in the browser. */
  spend(http: HttpContext, login: PendingLogin): void {
    const suffix = `-${digest(login.state)}`;
    for (const cookie of receivedCookies(http, PREFIX)) {
      if (cookie.name.endsWith(suffix)) {
        clearCookie(http, cookie.name, attributesOf(login, cookie));
      }
    }
  }
}

function digest(state: string): string {
  return createHash('sha256').update(state).digest('base64url').slice(0, 22);
}

function birthOf({ name }: ReceivedCookie): number {
  const birth = Number.parseInt(name.slice(PREFIX.length), 36);
  return Number.isNaN(birth) ? 0 : birth;
}

function isSecure(login: PendingLogin): boolean {
  return login.redirectUri.startsWith('https:');
}

/** A form_post arrives cross-site: only `None` lets its cookie through, which browsers accept when Secure. */
function attributesOf(login: PendingLogin, received?: ReceivedCookie): CookieAttributes {
  const secure = received?.secure ?? isSecure(login);
  return { secure, sameSite: secure && login.responseType !== 'code' ? 'none' : 'lax' };
}
