import { Inject, Injectable } from '@nestjs/common';
import { TokenRejectedError } from '../errors/token-rejected.error.js';
import { FleetWork, type SharedWork } from '../store/fleet-work.service.js';
import { ProblemLog } from '../problems/problem-log.service.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import type { Deadline } from '../time/deadline.js';
import { secretTextOf, type OAuthClient } from './client-authentication.js';
import { readApiClient } from './client-secret.js';
import type { Replacement, TimedToken } from './held-token.js';
import { remember, type Refusal } from './refusal.js';
import { SharedTokens, sharedName, TOKEN_KIND, workName, type StoredToken } from './shared-tokens.service.js';
import { TokenEndpoint } from './token-endpoint.service.js';

/** A token or a permanent refusal, of the endpoint or of another process. */
export type Fetched =
  | { readonly kind: 'token'; readonly timed: TimedToken }
  | { readonly kind: 'refused'; readonly refusal: Refusal; readonly isShared: boolean };

/** One piece of work: a client that needs a token in place of another. */
interface Need {
  readonly tenant: Tenant;
  readonly client: OAuthClient;
  /** Name of what the client shares. */
  readonly name: string;
  readonly replacement: Replacement;
  readonly deadline: Deadline;
}

/**
 * Tokens for the processes of a host: with a `store`, one process asks the token endpoint and the others take its token or
 * its refusal. Without a store, each process asks.
 */
@Injectable()
export class FleetTokens {
  readonly #clock: Clock;
  readonly #endpoint: TokenEndpoint;
  readonly #shared: SharedTokens;
  readonly #fleet: FleetWork;
  readonly #log: ProblemLog;

  constructor(
    @Inject(Clock) clock: Clock,
    @Inject(TokenEndpoint) endpoint: TokenEndpoint,
    @Inject(SharedTokens) shared: SharedTokens,
    @Inject(FleetWork) fleet: FleetWork,
    @Inject(ProblemLog) log: ProblemLog,
  ) {
    this.#clock = clock;
    this.#endpoint = endpoint;
    this.#shared = shared;
    this.#fleet = fleet;
    this.#log = log;
  }

  /**
   * The token of another process, else a new one; or a refusal. On `invalid_client` a secret function is called again once.
   *
   * @throws {ExhibitorError} `token_unavailable`, `rate_limited`, `malformed_response`, `deadline_exceeded`
   */
  async fetch(tenant: Tenant, replacement: Replacement, deadline: Deadline): Promise<Fetched> {
    const client = await readApiClient(tenant, deadline, this.#log);
    const fetched = await this.#fetchAs(client, tenant, replacement, deadline);
    const mayBeOld = fetched.kind === 'refused' && fetched.refusal.error.oauthError === 'invalid_client';
    if (!mayBeOld || !tenant.hasSecretFunction) {
      return fetched;
    }
    const newest = await readApiClient(tenant, deadline, this.#log);
    // The same secret would be refused again, and some providers lock a client out after several failures.
    const isSame = secretTextOf(newest) === secretTextOf(client);
    return isSame ? fetched : this.#fetchAs(newest, tenant, replacement, deadline);
  }

  async #fetchAs(
    client: OAuthClient,
    tenant: Tenant,
    replacement: Replacement,
    deadline: Deadline,
  ): Promise<Fetched> {
    const name = sharedName(tenant, secretTextOf(client));
    const need: Need = { tenant, client, name, replacement, deadline };
    if (replacement.isAlone !== true) {
      const { value } = await this.#fleet.run(this.#sharedWork(need), deadline);
      return value;
    }
    await this.#dropRefused(need, await this.#shared.token(name, replacement, 'look'));
    return this.#ask(need);
  }

  #sharedWork(need: Need): SharedWork<Fetched> {
    const { name, tenant, replacement } = need;
    let stored: StoredToken | undefined;
    let read: 'get' | 'look' = 'get';
    return {
      kind: TOKEN_KIND,
      name: workName(name, replacement),
      find: async () => {
        const [token, refusal] = await Promise.all([
          this.#shared.token(name, replacement, read),
          this.#shared.refusal(name, tenant, replacement),
        ]);
        read = 'look';
        stored = token;
        if (token?.isUsable === true) {
          return { kind: 'token', timed: token.timed };
        }
        return refusal === undefined ? undefined : { kind: 'refused', refusal, isShared: true };
      },
      ask: async () => {
        await this.#dropRefused(need, stored);
        return this.#ask(need);
      },
      isStored: (fetched) => this.#isShareable(fetched),
    };
  }

  /** Removes a refused token from the store, so that no other process takes it. Only the process that replaces it does. */
  async #dropRefused({ name, replacement }: Need, stored: StoredToken | undefined): Promise<void> {
    const isRefused = replacement.refusedAt !== undefined;
    if (isRefused && stored !== undefined && stored.timed.accessToken === replacement.text) {
      await this.#shared.dropToken(name);
    }
  }

  /** Asks the endpoint, and shares what it answers. */
  async #ask({ client, tenant, name, replacement, deadline }: Need): Promise<Fetched> {
    try {
      const timed = await this.#endpoint.request(client, tenant, deadline);
      await this.#shared.keepToken(name, timed, replacement);
      return { kind: 'token', timed };
    } catch (error) {
      if (!(error instanceof TokenRejectedError)) {
        throw error;
      }
      const refusal = remember(error, this.#clock.now(), this.#clock.random());
      await this.#shared.keepRefusal(name, refusal);
      return { kind: 'refused', refusal, isShared: false };
    }
  }

  #isShareable(fetched: Fetched): boolean {
    const until = fetched.kind === 'token' ? fetched.timed.expiresAt : fetched.refusal.until;
    return until > this.#clock.now();
  }
}
