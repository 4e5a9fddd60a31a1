import { setTimeout as pause } from 'node:timers/promises';
import * as v from 'valibot';
import { errorOf, failureOf } from '../errors/failure.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { TokenRejectedError } from '../errors/token-rejected.error.js';
import type { ProblemLog } from '../config/problems/problem-log.service.js';
import { addressOption, refusedClient } from '../config/problems/partner-problems.js';
import type { SharedValues } from '../store/shared-values.service.js';
import type { Tenant } from '../config/tenant.js';
import type { Clock } from '../call/clock.js';
import type { Call } from '../call/call.js';
import { withTimeout } from '../call/time-limit.js';
import type { Rests } from '../call/rests.js';
import { splitUrl } from '../http/wire/http-client.js';
import { digestOf } from '../model/digest.js';
import {
  newerClient,
  readApiClient,
  refusesSecret,
  secretTextOf,
  type OAuthClient,
} from './client-authentication.js';
import type { TokenEndpoint } from './token-endpoint.service.js';
import { TimedToken } from './token-lifetime.js';
import { HEADER_SAFE, isPermanent } from './token-reply.js';

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

/** A token request under way, for all callers. */
export interface Renewal {
  readonly call: Call;
  readonly result: Promise<TimedToken>;
}

let lastId = 0;

/**
 * The token of a tenant, and what is known of it. Where the host drops the token, a new state takes the place of this one: a renewal
 * under way, and the rests after its failures, are of the former state.
 */
export class TokenState {
  /** Names it in the rests. */
  readonly id = (lastId += 1);
  /** The token that is held: callers get it while it lasts. */
  token: TimedToken | undefined;
  renewal: Renewal | undefined;

  /**
   * @param rejected the access token that the next one replaces because it was refused, and {@link Clock.now} when the refused request
   * was sent: a token of another process counts only if it was requested later. Without `at`, where the host dropped the token, none counts
   */
  constructor(public rejected?: { readonly text: string; readonly at?: number }) {}
}

/** Where tokens come from: another process, through the `store` of the host, else the token endpoint. */
export class TokenSource {
  constructor(
    private readonly endpoint: TokenEndpoint,
    private readonly values: SharedValues,
    private readonly rests: Rests,
    private readonly clock: Clock,
    private readonly log: ProblemLog,
  ) {}

  /**
   * The next token of a tenant. Where its secret is refused, a secret function of the host is called again once.
   *
   * @param isCurrent false once the host has dropped this state: the next token is then not shared
   * @throws {ExhibitorError} `token_rejected`, `token_unavailable`, `rate_limited`, `malformed_response`, `deadline_exceeded`
   */
  async renew(tenant: Tenant, state: TokenState, isCurrent: () => boolean, call: Call): Promise<TimedToken> {
    const read = (): Promise<OAuthClient> => readApiClient(tenant, call, this.log);
    const renewWith = async (client: OAuthClient): Promise<TimedToken> => {
      const name = this.values.enabled ? this.values.secretName(clientText(tenant, client)) : undefined;
      const token = await this.#tokenOf(client, name, tenant, state, call);
      if (name !== undefined && !token.isShared && isCurrent()) {
        // The callers do not wait for the store.
        void this.#keep(name, token);
      }
      return token;
    };
    try {
      const client = await read();
      return await renewWith(client).catch(async (error: unknown) => {
        // A refusal of now, and not one that is repeated in its rest: then this secret was read a moment ago.
        const isRefused =
          error instanceof TokenRejectedError && refusesSecret(error.oauthError) && call.sent > 0;
        const newest = isRefused ? await newerClient(client, tenant.settings.clientSecret, read) : undefined;
        if (newest === undefined) {
          throw error;
        }
        return renewWith(newest);
      });
    } catch (error) {
      this.#report(tenant, error);
      throw error;
    }
  }

  /** @param name of the token in the store; `undefined` without one */
  async #tokenOf(
    client: OAuthClient,
    name: string | undefined,
    tenant: Tenant,
    state: TokenState,
    call: Call,
  ): Promise<TimedToken> {
    const about = digestOf(secretTextOf(client));
    const failure = this.rests.failure(['refusal', state.id, about]);
    if (name !== undefined && (state.rejected === undefined || state.rejected.at !== undefined)) {
      // While the endpoint rests for this process, it does not wait for another one.
      const waits = failure === undefined ? WAITS : [];
      // Half of the time at most: the rest is for the token endpoint.
      const search = withTimeout(call.remaining() / 2, () => this.#find(name, state, waits));
      // A search that takes too long finds nothing: the store never fails a call.
      const found = await search.catch(() => undefined);
      if (found !== undefined) {
        return found;
      }
    }
    if (failure !== undefined) {
      call.partner = 'failed';
      throw errorOf(failure, { tenant: tenant.key, attempts: call.sent });
    }
    try {
      return await this.endpoint.request(client, tenant, about, call);
    } catch (error) {
      if (isExhibitorError(error) && error.isOfHost !== true && error.attempts !== 0) {
        const { origin } = splitUrl(tenant.tokenUrl);
        const request = { tenant: tenant.stateKey.id, origin, operation: 'token', about };
        this.rests.tokenFailed(state.id, request, failureOf(error), isPermanent(error));
      }
      throw error;
    }
  }

  /**
   * The token of another process: at once, or after a wait where one is asking for it now.
   *
   * @param waits in ms; the store is read after each
   */
  async #find(name: string, state: TokenState, waits: readonly number[]): Promise<TimedToken | undefined> {
    const found = await this.#read(name, state);
    this.values.publishOutcome(TOKEN, found === undefined ? 'miss' : 'hit');
    if (found !== undefined || waits.length === 0) {
      return found;
    }
    // A hint, no lock: nobody removes it, and whatever goes wrong costs a token request more. It names the token that is replaced:
    // a process that replaces another one does not wait.
    const hint = JSON.stringify([name, replacedBy(state)]);
    // `null`: the store does not answer, so nobody is waited for.
    const isFirst = (await this.values.write(HINT, hint, '1', HINT_TTL, { ifAbsent: true })) !== false;
    if (isFirst) {
      return undefined;
    }
    for (const ms of waits) {
      await pause(ms, undefined, { ref: false });
      const token = await this.#read(name, state);
      if (token !== undefined) {
        this.values.publishOutcome(TOKEN, 'waited');
        return token;
      }
    }
    return undefined;
  }

  /** The token in the store, where it is a better one than the one that is held. */
  async #read(name: string, state: TokenState): Promise<TimedToken | undefined> {
    const { success, output } = v.safeParse(storedToken, await this.values.readSealed(TOKEN, name));
    if (!success) {
      return undefined;
    }
    const requestedAt = output.requestedAt - this.#epoch();
    const token = new TimedToken({ ...output, requestedAt, isShared: true }, this.clock);
    const { rejected } = state;
    const isNewer =
      rejected?.at === undefined
        ? token.expiresAt > (state.token?.expiresAt ?? 0)
        : requestedAt > rejected.at;
    const isWanted = isNewer && token.expiresAt > this.clock.now() && token.accessToken !== replacedBy(state);
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
      const option = addressOption(tenant, 'token');
      this.log.report(tenant, { cause: `${option} reply`, options: [option], message: error.message });
    }
  }

  /** {@link Clock.epochMs} when {@link Clock.now} was 0. */
  #epoch(): number {
    return this.clock.epochMs() - this.clock.now();
  }
}

/** The access token that the next one replaces; empty where there is none. */
function replacedBy({ token, rejected }: TokenState): string {
  return rejected?.text ?? token?.accessToken ?? '';
}

/** Stands for a client, with what only a holder of its secret knows: a process without the secret finds nothing. */
function clientText({ tokenUrl, settings: { clientId, scope } }: Tenant, client: OAuthClient): string {
  return JSON.stringify([tokenUrl, clientId, scope, secretTextOf(client)]);
}
