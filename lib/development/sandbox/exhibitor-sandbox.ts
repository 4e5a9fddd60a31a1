import type { Server } from 'node:http';
import type * as OidcProvider from 'oidc-provider';
import type { CustomFault, Fault, FaultMatch } from './faults.js';
import { issueAccessToken } from './provider/api-access.js';
import { createIdentityProvider, type Provider } from './provider/identity-provider.js';
import { loadProvider } from './provider/load-provider.js';
import type { SandboxRequest } from './server/request-log.js';
import { createRequestListener } from './server/request-listener.js';
import { startServer, stopServer, urlOf } from './server/sandbox-server.js';
import { SandboxState } from './sandbox-state.js';
import { defaultSeed, personOf, tenantOf } from './seed/seed.js';
import type { SandboxSeed, SeedEvent, SeedPerson, SeedTenant } from './seed/seed.js';
import type { SandboxExhibitor } from './seed/generate-exhibitors.js';
import { createSigningKey, type SigningKey } from './provider/signing-key.js';
import { createEnvironment, createTenantOptions, type EnvironmentOverrides } from './sandbox-options.js';
import type { SandboxOptions, SandboxTenantOptions, TenantOptionsOverrides } from './sandbox-options.js';

/**
 * A local copy of the Exhibitor Event REST Service and its identity provider. It serves tokens, login, list and lookup
 * over HTTP on 127.0.0.1, with seeded tenants, events and people. **For development and tests only**: its secrets are
 * public, and anyone can log in as any person. It does not start with `NODE_ENV=production`, and requires `oidc-provider` 9.
 * Methods throw an `Error` for a tenant (by key) or person (by `sub` or e-mail address) that its seed does not have; a fault for such a
 * tenant is never met.
 *
 * @example
 * const sandbox = await ExhibitorSandbox.start();
 * const app = await Test.createTestingModule({
 *   imports: [ExhibitorModule.forRoot({ tenant: sandbox.tenantOptions('acme'), secrets: [secret] })],
 * }).compile();
 * sandbox.failNext('list', { kind: 'status', status: 503, headers: { 'retry-after': '1' } }); // …
 * await sandbox.stop();
 */
export class ExhibitorSandbox {
  /** Delay of every reply of the REST API in milliseconds. It can be changed at any time. Default 0. */
  latency = 0;
  /** Lifetime in seconds of the access tokens for the REST API issued from now on. Default 3600. */
  tokenLifetime = 3600;
  readonly #state: SandboxState;
  readonly #provider: Provider;

  private constructor(
    private readonly server: Server,
    seed: SandboxSeed,
    key: SigningKey,
    oidc: typeof OidcProvider,
    options: SandboxOptions,
  ) {
    this.#state = new SandboxState(urlOf(server), seed, key, this, options);
    this.#provider = createIdentityProvider(oidc, this.#state);
    server.on('request', createRequestListener(this.#state, this.#provider));
  }

  /**
   * Starts a sandbox.
   *
   * @throws Error with `NODE_ENV=production`, if `oidc-provider` is not installed, if the port is not available, or if the seed has a
   * client that `oidc-provider` refuses.
   */
  static async start(options: SandboxOptions = {}): Promise<ExhibitorSandbox> {
    const { port = 0, seed = defaultSeed(), signingKey } = options;
    const [oidc, key] = await Promise.all([loadProvider(), createSigningKey(signingKey)]);
    const server = await startServer(port);
    try {
      return new ExhibitorSandbox(server, seed, key, oidc, options);
    } catch (cause) {
      await stopServer(server);
      const { error_description: description = cause } = Object(cause);
      throw new Error(`ExhibitorSandbox: the seed cannot be used: ${description}`, { cause });
    }
  }

  /**
   * Stops listening and closes every connection, including those with a reply under way. Afterwards the sandbox does not
   * keep the process alive. Further calls have no effect.
   */
  stop(): Promise<void> {
    return stopServer(this.server);
  }

  /** Origin of the REST API and of the identity provider, and the issuer. Example: `http://127.0.0.1:4711`. */
  get url(): string {
    return this.#state.url;
  }

  /** The tenants with their ids and credentials. */
  get tenants(): readonly SeedTenant[] {
    return this.#state.seed.tenants;
  }

  /** The people who can log in. */
  get people(): readonly SeedPerson[] {
    return this.#state.seed.people;
  }

  /** The events of the seed. */
  get events(): readonly SeedEvent[] {
    return this.#state.seed.events;
  }

  /** The options of a tenant for `ExhibitorModule`, with the ids, credentials and keys of this sandbox. */
  tenantOptions(key: string, overrides?: TenantOptionsOverrides): SandboxTenantOptions {
    return createTenantOptions(this.#state, tenantOf(this.#state.seed, key), overrides);
  }

  /**
   * The environment of the README's host for a tenant, as `exhibitorOptionsFrom` reads it, with a new `COOKIE_SECRET`.
   *
   * @example
   * Object.assign(process.env, sandbox.environment('acme')); // before the AppModule is compiled
   */
  environment(key: string, overrides?: EnvironmentOverrides): Record<string, string> {
    return createEnvironment(this.tenantOptions(key, { ...overrides, keys: 'url' }), overrides?.prefix);
  }

  /**
   * An access token of a person for the API of a host with `session: 'bearer'`: a JWT of one hour with the audience
   * `portal-api` and the client `portal-app`.
   */
  async accessToken(person: string): Promise<string> {
    return issueAccessToken(this.#provider, personOf(this.#state.seed, person));
  }

  /**
   * Answers every following authorization request at once, as this person: the redirect leads to the callback. It applies to every
   * tenant and browser, also with `prompt=login` and if another person is logged in. `undefined` shows the login page again.
   *
   * @example
   * sandbox.signInAs('olga.one@example.com');
   * const reply = await fetch(login.headers.location, { redirect: 'manual' });
   * const callback = new URL(reply.headers.get('location'));
   */
  signInAs(person: string | undefined): void {
    this.#state.signedInAs = person === undefined ? undefined : personOf(this.#state.seed, person);
  }

  /**
   * Sends a logout token to this address at every logout of a person who is logged in at this tenant (OpenID Connect
   * Back-Channel Logout 1.0); `undefined` sends none. ID tokens of later logins have a `sid`.
   *
   * @example
   * sandbox.setBackChannelLogoutUri('acme', 'http://127.0.0.1:3000/auth/backchannel-logout');
   */
  setBackChannelLogoutUri(tenant: string, uri: string | undefined): void {
    this.#state.logoutUris.set(tenantOf(this.#state.seed, tenant).key, uri);
  }

  /** The last 10,000 requests, or fewer where their forms are large (16 MiB of text); oldest first. Each access returns a new array; its records are still updated. */
  get requests(): readonly SandboxRequest[] {
    return this.#state.log.requests;
  }

  /** Removes all records from {@link requests}. */
  clearRequests(): void {
    this.#state.log.clear();
  }

  /**
   * Applies a fault to the next requests that match. If several faults match a request, the oldest is applied.
   *
   * @param match an operation, or conditions that must all be met.
   * @param times number of requests; `Infinity` applies the fault until {@link clearFaults}. Default 1.
   * @throws RangeError if `times` is neither an integer from 1 nor `Infinity`.
   * @example
   * sandbox.failNext({ operation: 'token', tenant: 'acme' }, { kind: 'reset' }, 2);
   */
  failNext(match: FaultMatch, fault: Fault, times?: number): void;
  /** @internal */
  failNext(match: FaultMatch, fault: Fault | CustomFault, times?: number): void;
  failNext(match: FaultMatch, fault: Fault | CustomFault, times = 1): void {
    this.#state.faults.add(match, fault, times);
  }

  /** Removes all faults that are still to be applied. */
  clearFaults(): void {
    this.#state.faults.clear();
  }

  /** Revokes the access tokens for the REST API issued so far, of one tenant or of all: it answers them with 401. */
  revokeTokens(tenant?: string): void {
    this.#state.api.revokeTokens(tenant);
  }

  /** The current exhibitors of an event. Empty if the tenant does not have the event. */
  exhibitors(eventId: string, tenant: string): readonly SandboxExhibitor[] {
    return this.#state.api.find(tenant, eventId) ?? [];
  }

  /**
   * Replaces the exhibitors of an event, for one tenant or for all. Adds the event if it does not exist.
   *
   * @example
   * sandbox.setExhibitors('world-2026', [{ id: 'x-1', name: 'X', contactEmails: ['olga.one@example.com'] }], 'acme');
   */
  setExhibitors(eventId: string, records: readonly SandboxExhibitor[], tenant?: string): void {
    this.#state.api.replace(eventId, records, tenant);
  }
}
