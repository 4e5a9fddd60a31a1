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
import { SharedTokens } from './shared-tokens.js';
import type { TimedToken } from './token-lifetime.js';
import { isPermanent } from './token-reply.js';
import type { TokenState } from './token-state.js';

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
        void this.#shared.keep(name, token);
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
    const failure = state.refusal(about);
    if (name !== undefined && state.refused?.by !== 'host') {
      // Half of the time at most: the rest is for the token endpoint. While that rests for this process, no other one is waited for.
      const search = withTimeout(call.remaining() / 2, () =>
        this.#shared.find(name, state, failure === undefined),
      );
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
        state.requestFailed(origin, about, failureOf(error), isPermanent(error));
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

/** Stands for a client, with what only a holder of its secret knows: a process without the secret finds nothing. */
function clientText({ tokenUrl, settings: { clientId, scope } }: Tenant, client: OAuthClient): string {
  return JSON.stringify([tokenUrl, clientId, scope, secretTextOf(client)]);
}
