import { Inject, Injectable } from '@nestjs/common';
import { TokenRejectedError } from '../errors/token-rejected.error.js';
import { digestOf } from '../model/digest.js';
import { ProblemLog } from '../problems/problem-log.service.js';
import { SharedValues } from '../store/shared-values.service.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import type { Deadline } from '../time/deadline.js';
import { secretTextOf, type OAuthClient } from './client-authentication.js';
import { readApiClient } from './client-secret.js';
import type { Replaced } from './held-token.js';
import { remember } from './remembered-rejection.js';
import { TokenRecords, TOKEN_KIND, type TokenAnswer } from './token-records.js';
import { TokenEndpoint } from './token-endpoint.service.js';
import { lookAgainAfter, TokenLease } from './token-lease.js';

/** A client that needs a token. */
interface Need {
  readonly tenant: Tenant;
  readonly client: OAuthClient;
  /** Name of what the processes share of this client. */
  readonly name: string;
  readonly replaced: Replaced;
  readonly deadline: Deadline;
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
  async fetch(tenant: Tenant, replaced: Replaced, deadline: Deadline): Promise<TokenAnswer> {
    const client = await readApiClient(tenant, deadline, this.log);
    const answer = await this.fetchAs(client, tenant, replaced, deadline);
    const mayBeOld = answer.kind === 'refused' && answer.rejection.error.oauthError === 'invalid_client';
    if (!mayBeOld || !tenant.hasSecretFunction) {
      return answer;
    }
    const newest = await readApiClient(tenant, deadline, this.log);
    // The same secret would be refused again, and some providers lock a client out after several failures.
    const isSame = secretTextOf(newest) === secretTextOf(client);
    return isSame ? answer : this.fetchAs(newest, tenant, replaced, deadline);
  }

  private async fetchAs(
    client: OAuthClient,
    tenant: Tenant,
    replaced: Replaced,
    deadline: Deadline,
  ): Promise<TokenAnswer> {
    const need: Need = { tenant, client, name: clientName(tenant, client), replaced, deadline };
    if (!this.values.enabled || replaced.isAlone === true) {
      return this.ask(need);
    }
    const found = await this.find(need);
    this.values.tell(TOKEN_KIND, found === undefined ? 'miss' : 'hit');
    return found ?? this.askOrWait(need);
  }

  private find({ name, tenant, replaced }: Need): Promise<TokenAnswer | undefined> {
    return this.records.find(name, tenant.key, replaced);
  }

  /** Takes the lease and asks, or looks for the token of its holder. After half of the deadline each process asks. */
  private async askOrWait(need: Need): Promise<TokenAnswer> {
    const { deadline, name, replaced } = need;
    const lease = new TokenLease(this.values, leaseName(name, replaced), this.clock);
    const half = deadline.remaining() / 2;
    for (let turn = 0; ; turn++) {
      const isTaken = await lease.take();
      if (isTaken === true) {
        return this.askWith(lease, need);
      }
      const found = await this.lookAgain(need);
      if (found !== undefined) {
        return found;
      }
      const patience = deadline.remaining() - half;
      if (isTaken === undefined || patience <= 0) {
        return this.ask(need);
      }
      await deadline.sleep(Math.min(patience, lookAgainAfter(turn, this.clock.random())));
    }
  }

  private async lookAgain(need: Need): Promise<TokenAnswer | undefined> {
    const found = await this.find(need);
    if (found !== undefined) {
      this.values.tell(TOKEN_KIND, 'waited');
    }
    return found;
  }

  private async askWith(lease: TokenLease, need: Need): Promise<TokenAnswer> {
    try {
      // The last holder of the lease may have finished since the last look.
      const found = await this.lookAgain(need);
      if (found !== undefined) {
        return found;
      }
      this.values.tell(TOKEN_KIND, 'leased');
      return await this.ask(need);
    } finally {
      await lease.release();
    }
  }

  /** Asks the endpoint, and shares what it answers. */
  private async ask({ client, tenant, name, replaced, deadline }: Need): Promise<TokenAnswer> {
    if (deadline.isOver) {
      throw deadline.failure({ tenant: tenant.key, attempts: deadline.sent });
    }
    await this.records.dropRefused(name, replaced);
    try {
      const timed = await this.endpoint.request(client, tenant, deadline);
      await this.records.keepToken(name, timed, replaced);
      return { kind: 'token', timed };
    } catch (error) {
      if (!(error instanceof TokenRejectedError)) {
        throw error;
      }
      const rejection = remember(error, this.clock.now(), this.clock.random());
      await this.records.keepRejection(name, rejection);
      return { kind: 'refused', rejection, isShared: false };
    }
  }
}

/** Names a client by what only a holder of its secret knows: a process without the secret finds nothing. */
function clientName({ tokenUrl, clientId, scope }: Tenant, client: OAuthClient): string {
  return JSON.stringify([tokenUrl, clientId, scope, digestOf(secretTextOf(client))]);
}

function leaseName(name: string, { text }: Replaced): string {
  return text === undefined ? name : `${name}:${digestOf(text)}`;
}
