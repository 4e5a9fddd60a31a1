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
import {
  newerClient,
  readApiClient,
  refusesSecret,
  secretTextOf,
  type OAuthClient,
} from './client-authentication.js';
import { isPermanent, type TokenEndpoint } from './token-endpoint.service.js';
import { SharedTokens } from './shared-tokens.js';
import type { TimedToken } from './token-lifetime.js';
import type { TokenState } from './token-state.js';

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
      // Not in a rest, where no request is sent: then this secret was read a moment ago.
      const wasAsked = call.sent > 0;
      const isRefused = error instanceof TokenRejectedError && refusesSecret(error.oauthError);
      const newest =
        wasAsked && isRefused ? await newerClient(client, tenant.settings.clientSecret, read) : undefined;
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
    // The host has dropped a token: the next one is new.
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
      // Of two secrets, the first may have been sent, and the second not.
      const isOfEndpoint = call.sent > sentBefore && call.partner.isSuspect;
      if (isExhibitorError(error) && isOfEndpoint) {
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
