import { Inject, Injectable } from '@nestjs/common';
import { TokenRejectedError } from '../errors/token-rejected.error.js';
import { digestOf } from '../model/digest.js';
import { ProblemLog } from '../problems/problem-log.service.js';
import { SharedValues } from '../store/shared-values.service.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import { secretTextOf, type OAuthClient } from './client-authentication.js';
import { newerClient, readApiClient, refusesSecret } from './client-secret.js';
import type { Renewal } from './held-token.js';
import { remember } from './remembered-rejection.js';
import { TokenRecords, TOKEN_KIND, type TokenAnswer } from './token-records.js';
import { TokenEndpoint } from './token-endpoint.service.js';
import { lookAgainAfter, TokenLease } from './token-lease.js';

interface Need {
  readonly tenant: Tenant;
  readonly client: OAuthClient;
  /** Name of what the processes share of this client. */
  readonly name: string;
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
   * The token of another process, else a new one; or a rejection. Where its secret is refused, a secret function is called again once.
   *
   * @throws {ExhibitorError} `token_unavailable`, `rate_limited`, `malformed_response`, `deadline_exceeded`
   */
  async fetch(tenant: Tenant, renewal: Renewal): Promise<TokenAnswer> {
    const read = (): Promise<OAuthClient> => readApiClient(tenant, renewal.deadline, this.log);
    const client = await read();
    const answer = await this.fetchAs(client, tenant, renewal);
    if (answer.kind !== 'rejected' || !refusesSecret(answer.rejection.error.oauthError)) {
      return answer;
    }
    const newest = await newerClient(client, tenant.settings.clientSecret, read);
    return newest === undefined ? answer : this.fetchAs(newest, tenant, renewal);
  }

  private async fetchAs(client: OAuthClient, tenant: Tenant, renewal: Renewal): Promise<TokenAnswer> {
    const need: Need = { tenant, client, name: clientName(tenant, client), renewal };
    if (!this.values.enabled || renewal.replaced.needsEndpoint) {
      return this.ask(need);
    }
    const found = await this.find(need);
    this.values.publishOutcome(TOKEN_KIND, found === undefined ? 'miss' : 'hit');
    if (found !== undefined) {
      return found;
    }
    const lease = new TokenLease(this.values, need.name, this.clock);
    // When the patience is over, each process asks. The store may be slow: that ends the wait in the middle of an operation.
    const waiting = renewal.patience.race(this.waitForOthers(need, lease));
    return (await waiting.catch(() => undefined)) ?? this.ask(need, lease);
  }

  /**
   * What the holder of the lease shares; `undefined` where this process is to ask: it has the lease, or cannot know who has it.
   * In each round it tries to take the lease, then looks for an answer, then pauses.
   */
  private async waitForOthers(need: Need, lease: TokenLease): Promise<TokenAnswer | undefined> {
    const { patience } = need.renewal;
    for (let looks = 0; !patience.isOver; looks++) {
      const holder = await lease.take();
      // Also with the lease: its last holder may have finished since the last look.
      const found = await this.find(need);
      if (found !== undefined) {
        this.values.publishOutcome(TOKEN_KIND, 'waited');
        void lease.release();
        return found;
      }
      if (holder === 'self') {
        this.values.publishOutcome(TOKEN_KIND, 'leased');
      }
      if (holder !== 'other') {
        return undefined;
      }
      await patience.sleep(lookAgainAfter(looks, this.clock.random()));
    }
    return undefined;
  }

  private find({ name, tenant, renewal }: Need): Promise<TokenAnswer | undefined> {
    return this.records.find(name, tenant.key, renewal.replaced);
  }

  /** Asks the endpoint, shares what it answers, and releases the lease. The callers do not wait for the store. */
  private async ask(need: Need, lease?: TokenLease): Promise<TokenAnswer> {
    let sharing = Promise.resolve();
    try {
      const answer = await this.answerOfEndpoint(need);
      sharing = this.share(need, answer);
      return answer;
    } finally {
      void sharing.then(() => lease?.release());
    }
  }

  private async answerOfEndpoint({ client, tenant, name, renewal }: Need): Promise<TokenAnswer> {
    const { deadline, replaced } = renewal;
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
  private async share({ name, renewal }: Need, answer: TokenAnswer): Promise<void> {
    if (renewal.wasInvalidated) {
      return;
    }
    await (answer.kind === 'token'
      ? this.records.keepToken(name, answer.timed, renewal.replaced)
      : this.records.keepRejection(name, answer.rejection));
  }
}

/** Names a client by what only a holder of its secret knows: a process without the secret finds nothing. */
function clientName({ tokenUrl, settings: { clientId, scope } }: Tenant, client: OAuthClient): string {
  return JSON.stringify([tokenUrl, clientId, scope, digestOf(secretTextOf(client))]);
}
