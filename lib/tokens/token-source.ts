import { setTimeout as pause } from 'node:timers/promises';
import * as v from 'valibot';
import { errorOf, failureOf } from '../errors/failure.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { TokenRejectedError } from '../errors/token-rejected.error.js';
import type { ProblemLog } from '../config/problems/problem-log.service.js';
import { addressOption, refusedClient } from '../config/problems/partner-problems.js';
import type { SharedValues } from '../store/shared-values.service.js';
import type { Tenant } from '../config/tenant.js';
import { withTimeout, type Clock } from '../call/clock.js';
import type { Call } from '../call/call.js';
import { originOf } from '../http/wire/http-client.js';
import { digestOf } from '../model/digest.js';
import { createCache, type ExpiringCache } from '../call/expiring-cache.js';
import {
  newerClient,
  readApiClient,
  refusesSecret,
  secretTextOf,
  type OAuthClient,
} from './client-authentication.js';
import { isPermanent, HEADER_SAFE, type TokenEndpoint } from './token-endpoint.service.js';
import { TimedToken } from './token-lifetime.js';
import type { TokenState } from './token-state.js';

const TOKEN = 'token';
const HINT = 'token-hint';

/** How long a hint says that a process is asking for a token, in ms. */
const HINT_TTL = 2_000;

/** Hints that a process remembers as its own. */
const MOST_HINTS = 1_000;

/** Waits of a process that finds a hint, in ms: 1,050 in all. It looks for the token after each, and then asks for one itself. */
const WAITS = [150, 300, 600];

/** A token in the store. Times are in ms since 1970, the only clock that processes share. */
const storedToken = v.object({
  accessToken: v.pipe(v.string(), v.regex(HEADER_SAFE)),
  scope: v.optional(v.string()),
  lifetime: v.number(),
  requestedAt: v.number(),
});

/** The tokens that processes share through the `store` of the host. Each has a name, which only holders of its secret can make. */
class SharedTokens {
  /** Those of this process. After a request that failed, it must not wait for itself. */
  readonly #ownHints: ExpiringCache<true>;

  constructor(
    private readonly values: SharedValues,
    private readonly clock: Clock,
  ) {
    this.#ownHints = createCache(clock, { max: MOST_HINTS });
  }

  /**
   * The token of another process: at once, or after a wait where one is asking for it now.
   *
   * @param mayWait false where this process could not ask itself afterwards
   */
  async find(name: string, state: TokenState, mayWait: boolean): Promise<TimedToken | undefined> {
    const found = await this.#read(name, state);
    this.values.publishOutcome(TOKEN, found === undefined ? 'miss' : 'hit');
    if (found !== undefined || !mayWait) {
      return found;
    }
    // A hint, no lock: nobody removes it, and whatever goes wrong costs a token request more. It names the token that is replaced:
    // a process that replaces another one does not wait.
    const hint = JSON.stringify([name, state.replaced]);
    // `false`: another process has written it. `null`: the store does not answer, so nobody is waited for.
    const mayAskNow = (await this.values.write(HINT, hint, '1', HINT_TTL, { ifAbsent: true })) !== false;
    if (mayAskNow) {
      this.#ownHints.set(hint, true, { ttl: HINT_TTL });
    }
    if (this.#ownHints.has(hint)) {
      return undefined;
    }
    for (const ms of WAITS) {
      await pause(ms, undefined, { ref: false });
      const token = await this.#read(name, state);
      if (token !== undefined) {
        this.values.publishOutcome(TOKEN, 'waited');
        return token;
      }
    }
    return undefined;
  }

  async keep(name: string, token: TimedToken): Promise<void> {
    const left = token.expiresAt - this.clock.now();
    if (left > 0) {
      const { accessToken, scope } = token;
      const lifetime = token.expiresAt - token.requestedAt;
      const requestedAt = token.requestedAt + this.#epoch();
      await this.values.writeSealed(TOKEN, name, { accessToken, scope, lifetime, requestedAt }, left);
    }
  }

  /** The token in the store, where it is a better one than the one that is held. */
  async #read(
    name: string,
    { token: held, rejected, replaced }: TokenState,
  ): Promise<TimedToken | undefined> {
    const { success, output } = v.safeParse(storedToken, await this.values.readSealed(TOKEN, name));
    if (!success) {
      return undefined;
    }
    const requestedAt = output.requestedAt - this.#epoch();
    const token = new TimedToken({ ...output, requestedAt, isShared: true }, this.clock);
    // `TokenSource` does not ask where the host has rejected it.
    const isNewer =
      rejected?.by === 'service' ? requestedAt > rejected.at : token.expiresAt > (held?.expiresAt ?? 0);
    const isWanted = isNewer && token.expiresAt > this.clock.now() && token.accessToken !== replaced;
    return isWanted ? token : undefined;
  }

  /** {@link Clock.epochMs} when {@link Clock.now} was 0. */
  #epoch(): number {
    return this.clock.epochMs() - this.clock.now();
  }
}

/** What a token is needed for. */
export interface TokenNeed {
  readonly tenant: Tenant;
  readonly state: TokenState;
  readonly call: Call;
  /** False once the host has dropped this state: the next token is then not shared. */
  readonly isCurrent: () => boolean;
}

/** Where tokens come from: another process, through the `store` of the host, else the token endpoint. */
export class TokenSource {
  readonly #shared: SharedTokens;

  constructor(
    private readonly endpoint: TokenEndpoint,
    private readonly values: SharedValues,
    clock: Clock,
    private readonly log: ProblemLog,
  ) {
    this.#shared = new SharedTokens(values, clock);
  }

  /**
   * The next token of a tenant.
   *
   * @throws {ExhibitorError} `token_rejected`, `token_unavailable`, `rate_limited`, `malformed_response`, `deadline_exceeded`
   */
  renew(need: TokenNeed): Promise<TimedToken> {
    return this.#renewWithNewestSecret(need).catch((error: unknown) => {
      this.#report(need.tenant, error);
      throw error;
    });
  }

  /** Where the secret is refused, a secret function of the host is called again once. */
  async #renewWithNewestSecret(need: TokenNeed): Promise<TimedToken> {
    const { tenant, call } = need;
    const read = (): Promise<OAuthClient> => readApiClient(tenant, call, this.log);
    const client = await read();
    try {
      return await this.#tokenOf(client, need);
    } catch (error) {
      // A refusal that is repeated in its rest sends no request: then this secret was read a moment ago.
      const isRefused =
        error instanceof TokenRejectedError && refusesSecret(error.oauthError) && call.sent > 0;
      const newest = isRefused ? await newerClient(client, tenant.settings.clientSecret, read) : undefined;
      if (newest === undefined) {
        throw error;
      }
      return this.#tokenOf(newest, need);
    }
  }

  /**
   * A token for this client: that of another process, also while the endpoint rests, else a new one, which other processes then find.
   */
  async #tokenOf(client: OAuthClient, need: TokenNeed): Promise<TimedToken> {
    const { tenant, state, call } = need;
    const secretText = secretTextOf(client);
    const secretDigest = digestOf(secretText);
    const restingFailure = state.recentFailure(secretDigest);
    // Named by what only a holder of the secret knows: a process without it finds nothing.
    const ofClient = [client.tokenUrl, client.id, tenant.settings.scope, secretText];
    const name = this.values.enabled ? this.values.secretName(JSON.stringify(ofClient)) : undefined;
    // While the endpoint rests for this process, no other one is waited for.
    const shared =
      name === undefined ? undefined : await this.#find(name, need, restingFailure === undefined);
    if (shared !== undefined) {
      return shared;
    }
    if (restingFailure !== undefined) {
      call.partner.failed();
      throw errorOf(restingFailure, { tenant: tenant.key, attempts: call.sent });
    }
    const token = await this.#request(client, secretDigest, need);
    if (name !== undefined && need.isCurrent()) {
      // The callers do not wait for the store.
      void this.#shared.keep(name, token);
    }
    return token;
  }

  /**
   * The token of another process. A search that takes too long finds nothing: the store never fails a call.
   *
   * @param name of the token in the store
   */
  async #find(name: string, { state, call }: TokenNeed, mayWait: boolean): Promise<TimedToken | undefined> {
    if (state.rejected?.by === 'host') {
      return undefined;
    }
    // Half of the time at most: the rest is for the token endpoint.
    const search = withTimeout(call.remaining() / 2, () => this.#shared.find(name, state, mayWait));
    return search.catch(() => undefined);
  }

  async #request(
    client: OAuthClient,
    secretDigest: string,
    { tenant, state, call }: TokenNeed,
  ): Promise<TimedToken> {
    const sentBefore = call.sent;
    try {
      return await this.endpoint.request(client, tenant, secretDigest, call);
    } catch (error) {
      const wasAsked = call.sent > sentBefore && call.partner.isSuspect;
      if (isExhibitorError(error) && wasAsked) {
        state.requestFailed(originOf(client.tokenUrl), secretDigest, failureOf(error), isPermanent(error));
      }
      throw error;
    }
  }

  #report(tenant: Tenant, error: unknown): void {
    if (error instanceof TokenRejectedError) {
      this.log.report(tenant, refusedClient(tenant, '', error));
    } else if (isExhibitorError(error) && error.code === 'malformed_response') {
      const option = addressOption(tenant, 'token');
      this.log.report(tenant, { cause: `${option} reply`, options: [option], message: error.message });
    }
  }
}
