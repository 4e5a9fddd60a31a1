import { Inject, Injectable } from '@nestjs/common';
import { TokenRejectedError } from '../errors/token-rejected.error.js';
import { digestOf } from '../model/digest.js';
import { ProblemLog } from '../problems/problem-log.service.js';
import { SharedValues } from '../store/shared-values.service.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import { secretTextOf, type OAuthClient } from './client-authentication.js';
import { newerClient, readApiClient } from './client-secret.js';
import type { Renewal } from './held-token.js';
import { remember } from './remembered-rejection.js';
import { leaseName, type ReplacedToken } from './replaced-token.js';
import { TokenRecords, TOKEN_KIND, type TokenAnswer } from './token-records.js';
import { TokenEndpoint } from './token-endpoint.service.js';
import { lookAgainAfter, TokenLease } from './token-lease.js';

/** A client that needs a token. */
interface Need {
  readonly tenant: Tenant;
  readonly client: OAuthClient;
  /** Name of what the processes share of this client. */
  readonly name: string;
  readonly replaced: ReplacedToken;
  readonly renewal: Renewal;
}

/**
 * Tokens that the processes of a host share through its `store`: one process takes a {@link TokenLease} and asks the token
 * endpoint, and the others take its token or its rejection. Without a store, each process asks.
 */
@Injectable()
export class SharedTokens {
  private readonly records: TokenRecords;

  constructor(
    @Inject(SharedValues) private readonly values: SharedValues,
    @Inject(TokenEndpoint) private readonly endpoint: TokenEndpoint,
    @Inject(Clock) private readonly clock: Clock,
    @Inject(ProblemLog) private readonly log: ProblemLog,
  ) {
    this.records = new TokenRecords(values, clock);
  }

  /**
   * The token of another process, else a new one; or a rejection. On `invalid_client` a secret function is called again once.
   *
   * @throws {ExhibitorError} `token_unavailable`, `rate_limited`, `malformed_response`, `deadline_exceeded`
   */
  async fetch(tenant: Tenant, replaced: ReplacedToken, renewal: Renewal): Promise<TokenAnswer> {
    const read = (): Promise<OAuthClient> => readApiClient(tenant, renewal.deadline, this.log);
    const client = await read();
    const answer = await this.fetchAs(client, tenant, replaced, renewal);
    if (answer.kind !== 'rejected' || answer.rejection.error.oauthError !== 'invalid_client') {
      return answer;
    }
    const newest = await newerClient(client, tenant.settings.clientSecret, read);
    return newest === undefined ? answer : this.fetchAs(newest, tenant, replaced, renewal);
  }

  private async fetchAs(
    client: OAuthClient,
    tenant: Tenant,
    replaced: ReplacedToken,
    renewal: Renewal,
  ): Promise<TokenAnswer> {
    const need: Need = { tenant, client, name: clientName(tenant, client), replaced, renewal };
    if (!this.values.enabled || replaced.kind === 'refused-again') {
      const answer = await this.ask(need);
      void this.share(need, answer);
      return answer;
    }
    const found = await this.records.find(need.name, need.tenant.key, need.replaced);
    this.values.publishOutcome(TOKEN_KIND, found === undefined ? 'miss' : 'hit');
    return found ?? this.askUnderLease(need);
  }

  /** Takes the lease and asks, or waits for what its holder shares. When the patience is over, each process asks. */
  private async askUnderLease(need: Need): Promise<TokenAnswer> {
    const lease = new TokenLease(this.values, leaseName(need.name, need.replaced), this.clock);
    let shared: Promise<void> | undefined;
    try {
      // The store may be slow as well: the wait ends in the middle of an operation.
      const found = await need.renewal.patience.race(this.waitForOthers(need, lease)).catch(() => undefined);
      if (found !== undefined) {
        return found;
      }
      const answer = await this.ask(need);
      shared = this.share(need, answer);
      return answer;
    } finally {
      // The callers do not wait for the store.
      void Promise.resolve(shared).then(() => lease.release());
    }
  }

  /** What the holder of the lease shares; `undefined` as soon as this process must ask itself. */
  private async waitForOthers(need: Need, lease: TokenLease): Promise<TokenAnswer | undefined> {
    const { patience } = need.renewal;
    for (let looks = 0; !patience.isOver; looks++) {
      const isTaken = await lease.take();
      // Also with the lease: its last holder may have finished since the last look.
      const found = await this.records.find(need.name, need.tenant.key, need.replaced);
      if (found !== undefined) {
        this.values.publishOutcome(TOKEN_KIND, 'waited');
        return found;
      }
      if (isTaken === true) {
        this.values.publishOutcome(TOKEN_KIND, 'leased');
      }
      if (isTaken !== false) {
        return undefined;
      }
      await patience.sleep(lookAgainAfter(looks, this.clock.random()));
    }
    return undefined;
  }

  /** Asks the endpoint. */
  private async ask({ client, tenant, name, replaced, renewal }: Need): Promise<TokenAnswer> {
    const { deadline } = renewal;
    if (deadline.isOver) {
      throw deadline.failure({ tenant: tenant.key, attempts: deadline.sent });
    }
    await this.records.removeBad(name, replaced);
    try {
      return { kind: 'token', timed: await this.endpoint.request(client, tenant, deadline) };
    } catch (error) {
      if (!(error instanceof TokenRejectedError)) {
        throw error;
      }
      const rejection = remember(error, this.clock.now(), this.clock.random());
      return { kind: 'rejected', rejection, isShared: false };
    }
  }

  /** Shares what the endpoint answered, unless the host has invalidated it meanwhile. */
  private async share({ name, replaced, renewal }: Need, answer: TokenAnswer): Promise<void> {
    if (!renewal.wasInvalidated) {
      await (answer.kind === 'token'
        ? this.records.keepToken(name, answer.timed, replaced)
        : this.records.keepRejection(name, answer.rejection));
    }
  }
}

/** Names a client by what only a holder of its secret knows: a process without the secret finds nothing. */
function clientName({ tokenUrl, clientId, scope }: Tenant, client: OAuthClient): string {
  return JSON.stringify([tokenUrl, clientId, scope, digestOf(secretTextOf(client))]);
}
