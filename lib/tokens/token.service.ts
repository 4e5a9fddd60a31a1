import { Inject, Injectable } from '@nestjs/common';
import { publish } from '../call/channels.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { ProblemLog } from '../config/problems/problem-log.service.js';
import { SharedValues } from '../store/shared-values.service.js';
import { TenantRegistry } from '../config/tenant-registry.service.js';
import type { StateKey, Tenant } from '../config/tenant.js';
import { Clock, LONGEST_TIMER } from '../call/clock.js';
import type { Call, SharedWork } from '../call/call.js';
import { Calls, mayStartNext, SharedWorks } from '../call/calls.service.js';
import { Rests } from '../call/partner.js';
import { TokenEndpoint } from './token-endpoint.service.js';
import type { AccessToken, TimedToken } from './token-lifetime.js';
import type { GetTokenOptions, InvalidateOptions } from './token-options.interface.js';
import { TokenSource } from './token-source.js';
import { isYoung, TokenState, type Rejected } from './token-state.js';

/**
 * Client-credentials access tokens of the tenants: cached, renewed in the background before they expire, and requested once
 * for all concurrent callers; with a `store`, usually once for all processes.
 *
 * @example
 * const { accessToken } = await tokens.getToken({ tenant: 'acme' });
 */
@Injectable()
export class TokenService {
  /** Tenants with equal credentials have separate tokens: forgetting or revoking one does not affect the other. */
  readonly #states = new WeakMap<StateKey, TokenState>();
  readonly #renewals: SharedWorks<TokenState, TimedToken>;
  readonly #source: TokenSource;

  /** @internal */
  constructor(
    @Inject(TenantRegistry) private readonly tenants: TenantRegistry,
    @Inject(Clock) private readonly clock: Clock,
    @Inject(Calls) private readonly calls: Calls,
    @Inject(TokenEndpoint) endpoint: TokenEndpoint,
    @Inject(Rests) private readonly rests: Rests,
    @Inject(SharedValues) values: SharedValues,
    @Inject(ProblemLog) log: ProblemLog,
  ) {
    this.#renewals = new SharedWorks(calls);
    this.#source = new TokenSource(endpoint, values, clock, log);
  }

  /**
   * A valid access token.
   *
   * @throws {ExhibitorError} `token_rejected` (see {@link TokenRejectedError}), `token_unavailable`, `rate_limited`,
   * `malformed_response`, `deadline_exceeded`, `aborted`, `unknown_tenant`, `tenant_required`
   */
  async getToken(options?: GetTokenOptions): Promise<AccessToken> {
    const signal = options?.signal;
    const found = this.tenants.resolve(options?.tenant);
    if (found instanceof Promise) {
      // The search takes its part of the deadline. The registry limits it, so it ends here only by signal or closing.
      const startedAt = this.clock.now();
      const tenant = await this.calls.start(LONGEST_TIMER, signal).run((search) => search.race(found));
      return this.#get(tenant, tenant.http.deadline - (this.clock.now() - startedAt), signal);
    }
    return this.#get(found, found.http.deadline, signal);
  }

  /**
   * Removes the token of a tenant, so that the next call requests a new one, and a remembered refusal. With `rejected`,
   * only where that is the current token; the next one may then be one that another process requests from now on.
   *
   * @throws {ExhibitorError} `unknown_tenant`, `tenant_required`
   */
  async invalidate(options?: InvalidateOptions): Promise<void> {
    const { stateKey } = await this.tenants.resolve(options?.tenant);
    const text = options?.rejected;
    if (text === undefined) {
      // Also where this process holds none: it must not take an older one from the store.
      this.#newState(stateKey, { by: 'host' });
    } else if (this.#states.get(stateKey)?.token?.accessToken === text) {
      this.#newState(stateKey, { by: 'service', token: text, at: this.clock.now() });
    }
  }

  /** The token of a tenant, within the deadline of a call; synchronously where one is held. @internal */
  tokenFor(tenant: Tenant, call: Call): TimedToken | Promise<TimedToken> {
    return this.#held(tenant) ?? this.#nextToken(tenant, call);
  }

  /**
   * The token with which a request is sent once more, after the service answered 401 to it with this one. The first row that fits counts:
   *
   * | the token                                                       | it is sent with            |
   * | --------------------------------------------------------------- | -------------------------- |
   * | is not held any more                                            | the one that is, or a next |
   * | is being renewed                                                | the next one               |
   * | is young                                                        | none: `undefined`          |
   * | is of a tenant that had a renewal after a 401 or 403 within 10 s | none: `undefined`          |
   * | is any other                                                    | the next one               |
   *
   * Others go on with the one that is held until another has come.
   *
   * @param sentAt {@link Clock.now} when the request was sent
   * @internal
   */
  async tokenAfter401(
    tenant: Tenant,
    refused: TimedToken,
    sentAt: number,
    call: Call,
  ): Promise<TimedToken | undefined> {
    const state = this.#stateOf(tenant);
    if (state.token?.accessToken !== refused.accessToken) {
      return this.tokenFor(tenant, call);
    }
    // A renewal under way brings another token anyway.
    if (this.#renewals.joinable(state) === undefined) {
      if (!state.claimAfter401(this.#ageOf(refused))) {
        return undefined;
      }
      state.refused(refused.accessToken, sentAt);
    }
    return this.#nextToken(tenant, call);
  }

  /** True for a token that is too young to be renewed because of a 401. @internal */
  isYoung(token: TimedToken): boolean {
    return isYoung(this.#ageOf(token));
  }

  /** The service answered 403: a scope may have been granted since this token was requested, so its renewal is due. @internal */
  renewAfter403(tenant: Tenant, forbidden: TimedToken, sentAt: number): void {
    const state = this.#stateOf(tenant);
    const isHeld =
      state.token?.accessToken === forbidden.accessToken && this.#renewals.joinable(state) === undefined;
    if (isHeld && state.claimReplacement()) {
      state.refused(forbidden.accessToken, sentAt);
      this.#renewBehind(tenant, state);
    }
  }

  /** No promise where a token is held. */
  #get(tenant: Tenant, ms: number, signal: AbortSignal | undefined): AccessToken | Promise<AccessToken> {
    const held = signal?.aborted === true ? undefined : this.#held(tenant);
    if (held !== undefined) {
      return held.toAccessToken();
    }
    return this.calls
      .start(ms, signal)
      .run(async (call) => (await this.#nextToken(tenant, call)).toAccessToken());
  }

  /** The token that is held and has not expired. In its early window it is renewed in the background. */
  #held(tenant: Tenant): TimedToken | undefined {
    const now = this.clock.now();
    const state = this.#states.get(tenant.stateKey);
    const token = state?.token;
    if (state === undefined || token === undefined || now >= token.expiresAt) {
      return undefined;
    }
    if (now >= token.renewAt && this.#renewals.joinable(state) === undefined && state.mayRenewEarly) {
      this.#renewBehind(tenant, state);
    }
    publish('token', () => ({ tenant: tenant.key, outcome: 'hit' }));
    return token;
  }

  #ageOf({ requestedAt }: TimedToken): number {
    return this.clock.now() - requestedAt;
  }

  #renewBehind(tenant: Tenant, state: TokenState): void {
    this.#renew(tenant, state, tenant.http.deadline).result.then(
      ({ isShared }) => publishOutcome(tenant, isShared ? 'shared' : 'renewed-early'),
      (error: unknown) => publishFailure(tenant, error),
    );
  }

  /** Waits for the next token within the deadline of a call: that of the renewal under way, else of a new one. */
  async #nextToken(tenant: Tenant, call: Call): Promise<TimedToken> {
    const state = this.#stateOf(tenant);
    const joined = this.#renewals.joinable(state);
    try {
      if (call.isOver) {
        throw call.failure({ tenant: tenant.key });
      }
      // What is published where this call itself starts the renewal and no other process had the token.
      const outcome = state.rejected === undefined ? 'fetched' : 'forced';
      const token = await call.join(joined ?? this.#renew(tenant, state, call.remaining()));
      publishOutcome(tenant, joined !== undefined || token.isShared ? 'shared' : outcome);
      return token;
    } catch (error) {
      if (mayStartNext(joined, call)) {
        return this.tokenFor(tenant, call);
      }
      publishFailure(tenant, error);
      throw error;
    }
  }

  /** Starts a renewal with a deadline of its own, at least that of its caller. */
  #renew(tenant: Tenant, state: TokenState, ms: number): SharedWork<TimedToken> {
    const deadline = Math.max(tenant.http.deadline, ms);
    return this.#renewals.start(state, deadline, (call) => this.#renewAndHold(tenant, state, call));
  }

  async #renewAndHold(tenant: Tenant, state: TokenState, call: Call): Promise<TimedToken> {
    call.tenant = tenant.key;
    try {
      const isCurrent = (): boolean => this.#states.get(tenant.stateKey) === state;
      const token = await this.#source.renew({ tenant, state, call, isCurrent });
      // A renewal that was overdue may end after a later one: then the token counts that lasts longer.
      if (token.expiresAt > (state.token?.expiresAt ?? 0) || this.#renewals.isLatest(state, call)) {
        state.hold(token);
      }
      return token;
    } catch (error) {
      state.renewalFailed();
      throw error;
    }
  }

  #stateOf({ stateKey }: Tenant): TokenState {
    return this.#states.get(stateKey) ?? this.#newState(stateKey);
  }

  #newState(key: StateKey, rejected?: Rejected): TokenState {
    const state = new TokenState(this.rests, key, rejected);
    this.#states.set(key, state);
    return state;
  }
}

function publishOutcome({ key }: Tenant, outcome: 'fetched' | 'forced' | 'shared' | 'renewed-early'): void {
  publish('token', () => ({ tenant: key, outcome }));
}

function publishFailure({ key }: Tenant, error: unknown): void {
  const code = isExhibitorError(error) ? error.code : undefined;
  publish('token', () => ({ tenant: key, outcome: 'failed', code }));
}
