import { setTimeout as pause } from 'node:timers/promises';
import * as v from 'valibot';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { TokenRejectedError } from '../errors/token-rejected.error.js';
import type { ProblemLog } from '../config/problems/problem-log.service.js';
import { refusedClient } from '../config/problems/token-endpoint-problems.js';
import type { SharedValues } from '../store/shared-values.service.js';
import type { Tenant } from '../config/tenant.js';
import type { Clock } from '../call/clock.js';
import type { Deadline } from '../call/deadline.js';
import { withTimeout } from '../call/time-limit.js';
import {
  newerClient,
  readApiClient,
  refusesSecret,
  secretTextOf,
  type OAuthClient,
} from './client-authentication.js';
import type { TokenEndpoint } from './token-endpoint.service.js';
import { TimedToken } from './token-lifetime.js';
import { HEADER_SAFE } from './token-reply.js';

const TOKEN = 'token';
const HINT = 'token-hint';

/** How long a hint says that a process is asking for a token, in ms. */
const HINT_TTL = 2_000;

/** Waits of a process that finds a hint, in ms: 1,050 in all. It looks for the token after each, and then asks for one itself. */
const WAITS = [150, 300, 600];

/** A token in the store. Times are in ms since 1970, the only clock that processes share. */
const storedToken = v.object({
  accessToken: v.pipe(v.string(), v.regex(HEADER_SAFE)),
  scope: v.optional(v.string()),
  lifetime: v.number(),
  requestedAt: v.number(),
});

/** What the next token must be. Times are in ms of {@link Clock.now}. */
export interface NeededToken {
  /** The access token that it replaces; empty where there is none. */
  readonly replaced: string;
  /** Only a token of another process that was requested after this time will do. `-Infinity`: any; `Infinity`: none. */
  readonly requestedAfter: number;
  /** Only a token of another process that expires after this time will do. */
  readonly expiresAfter: number;
  /** False once the host has invalidated the token: what was requested before is not shared. */
  readonly isNeeded: () => boolean;
}

/** Where tokens come from: another process, through the `store` of the host, else the token endpoint. */
export class TokenSource {
  constructor(
    private readonly endpoint: TokenEndpoint,
    private readonly values: SharedValues,
    private readonly clock: Clock,
    private readonly log: ProblemLog,
  ) {}

  /**
   * The next token of a tenant. Where its secret is refused, a secret function of the host is called again once.
   *
   * @throws {ExhibitorError} `token_rejected`, `token_unavailable`, `rate_limited`, `malformed_response`, `deadline_exceeded`
   */
  async next(tenant: Tenant, needed: NeededToken, deadline: Deadline): Promise<TimedToken> {
    try {
      return await this.#nextWithSecretOfNow(tenant, needed, deadline);
    } catch (error) {
      this.#report(tenant, error);
      throw error;
    }
  }

  async #nextWithSecretOfNow(tenant: Tenant, needed: NeededToken, deadline: Deadline): Promise<TimedToken> {
    const read = (): Promise<OAuthClient> => readApiClient(tenant, deadline, this.log);
    const client = await read();
    try {
      return await this.#nextOf(client, tenant, needed, deadline);
    } catch (error) {
      const isRefused = error instanceof TokenRejectedError && refusesSecret(error.oauthError);
      const newest = isRefused ? await newerClient(client, tenant.settings.clientSecret, read) : undefined;
      if (newest === undefined) {
        throw error;
      }
      return this.#nextOf(newest, tenant, needed, deadline);
    }
  }

  async #nextOf(
    client: OAuthClient,
    tenant: Tenant,
    needed: NeededToken,
    deadline: Deadline,
  ): Promise<TimedToken> {
    if (!this.values.enabled) {
      return this.endpoint.request(client, tenant, deadline);
    }
    const name = this.values.secretName(clientText(tenant, client));
    // Half of the time at most: the rest is for the token endpoint.
    const search = withTimeout(deadline.remaining() / 2, () => this.#find(name, needed));
    // A search that takes too long finds nothing: the store never fails a call.
    const found = await search.catch(() => undefined);
    if (found !== undefined) {
      return found;
    }
    const token = await this.endpoint.request(client, tenant, deadline);
    if (needed.isNeeded()) {
      // The callers do not wait for the store.
      void this.#keep(name, token);
    }
    return token;
  }

  /** The token of another process: at once, or after one of {@link WAITS} where one is asking for it now. */
  async #find(name: string, needed: NeededToken): Promise<TimedToken | undefined> {
    if (needed.requestedAfter === Number.POSITIVE_INFINITY) {
      return undefined;
    }
    const found = await this.#read(name, needed);
    this.values.publishOutcome(TOKEN, found === undefined ? 'miss' : 'hit');
    if (found !== undefined) {
      return found;
    }
    // A hint, no lock: nobody removes it, and whatever goes wrong costs a token request more. It names the token that is replaced:
    // a process that replaces another one does not wait.
    const hint = JSON.stringify([name, needed.replaced]);
    // `null`: the store does not answer, so nobody is waited for.
    const isFirst = (await this.values.write(HINT, hint, '1', HINT_TTL, { ifAbsent: true })) !== false;
    if (isFirst) {
      return undefined;
    }
    for (const ms of WAITS) {
      await pause(ms, undefined, { ref: false });
      const token = await this.#read(name, needed);
      if (token !== undefined) {
        this.values.publishOutcome(TOKEN, 'waited');
        return token;
      }
    }
    return undefined;
  }

  async #read(name: string, needed: NeededToken): Promise<TimedToken | undefined> {
    const { success, output } = v.safeParse(storedToken, await this.values.readSealed(TOKEN, name));
    if (!success) {
      return undefined;
    }
    const requestedAt = output.requestedAt - this.#epoch();
    const token = new TimedToken({ ...output, requestedAt, isShared: true }, this.clock);
    const { replaced, requestedAfter, expiresAfter } = needed;
    const isWanted =
      token.accessToken !== replaced && requestedAt > requestedAfter && token.expiresAt > expiresAfter;
    return isWanted ? token : undefined;
  }

  async #keep(name: string, token: TimedToken): Promise<void> {
    const left = token.expiresAt - this.clock.now();
    if (left > 0) {
      const { accessToken, scope, lifetime } = token;
      const requestedAt = token.requestedAt + this.#epoch();
      await this.values.writeSealed(TOKEN, name, { accessToken, scope, lifetime, requestedAt }, left);
    }
  }

  #report(tenant: Tenant, error: unknown): void {
    if (error instanceof TokenRejectedError) {
      this.log.report(tenant, refusedClient(tenant, '', error));
    } else if (isExhibitorError(error) && error.code === 'malformed_response') {
      const { tokenUrlOption: option } = tenant;
      this.log.report(tenant, { cause: `${option} reply`, options: [option], message: error.message });
    }
  }

  /** {@link Clock.epochMs} when {@link Clock.now} was 0. */
  #epoch(): number {
    return this.clock.epochMs() - this.clock.now();
  }
}

/** Stands for a client, with what only a holder of its secret knows: a process without the secret finds nothing. */
function clientText({ tokenUrl, settings: { clientId, scope } }: Tenant, client: OAuthClient): string {
  return JSON.stringify([tokenUrl, clientId, scope, secretTextOf(client)]);
}
