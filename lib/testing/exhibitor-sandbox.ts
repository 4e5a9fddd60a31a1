import { ApiAccessCheck } from './api-access.js';
import { ExhibitorRecords } from './exhibitor-records.js';
import { FaultQueue, type FaultMatch } from './fault-queue.js';
import type { Fault } from './faults.js';
import { createIdentityProvider } from './identity-provider.js';
import { loadProvider } from './load-provider.js';
import { RequestLog, type SandboxRequest } from './request-log.js';
import { requestListener } from './request-listener.js';
import { SandboxServer } from './sandbox-server.js';
import { defaultSeed, type SandboxSeed, type SeedEvent, type SeedPerson, type SeedTenant } from './seed.js';
import type { SandboxExhibitor } from './sandbox-exhibitor.interface.js';
import { createSigningKey, type PublicJwk, type SigningKey } from './signing-key.js';
import { tenantOptionsOf, type SandboxTenantOptions, type TenantOptionsOverrides } from './tenant-options.js';

/** Options of {@link ExhibitorSandbox.start}. */
export interface SandboxOptions {
  /** Port on 127.0.0.1. Default 0: a free one. */
  readonly port?: number;
  /** Default {@link defaultSeed}. */
  readonly seed?: SandboxSeed;
  /**
   * RSA private key of the identity provider (PEM). Default: a new one, which takes about 200 ms to generate.
   *
   * @internal
   */
  readonly signingKey?: string;
}

/**
 * The whole Exhibitor Event REST Service with its identity provider, over real HTTP on 127.0.0.1: tokens, login,
 * list and lookup, with seeded tenants, events and people. **For development and tests only**: its secrets are
 * public and everyone may log in as anyone. It does not start with `NODE_ENV=production`.
 *
 * Needs the optional peer dependency `oidc-provider` 9.
 *
 * @example
 * const sandbox = await ExhibitorSandbox.start();
 * const app = await Test.createTestingModule({
 *   imports: [ExhibitorModule.forRoot({ tenant: sandbox.tenantOptions('acme'), secrets: [secret] })],
 * }).compile();
 * sandbox.failNext('list', { kind: 'status', status: 503, headers: { 'retry-after': '1' } });
 * // …
 * await sandbox.stop();
 */
export class ExhibitorSandbox {
  /** Origin of the service and of its identity provider, for example `http://127.0.0.1:4711`; also the issuer. */
  readonly url: string;
  /** Milliseconds added to every reply of the REST API; may be changed at any time. Default 0. */
  latency = 0;
  /** Lifetime in seconds of the API access tokens issued from now on. Default 3600. */
  tokenLifetime = 3600;

  #signedInAs: SeedPerson | undefined;
  readonly #faults = new FaultQueue();
  readonly #log: RequestLog;
  readonly #records: ExhibitorRecords;
  readonly #access: ApiAccessCheck;

  private constructor(
    private readonly server: SandboxServer,
    private readonly key: SigningKey,
    private readonly seed: SandboxSeed,
  ) {
    this.url = server.url;
    this.#log = new RequestLog(seed.tenants);
    this.#records = new ExhibitorRecords(seed);
    this.#access = new ApiAccessCheck(this.url, key.publicKey, seed.tenants);
  }

  /**
   * Starts a sandbox. Fails with a clear error under `NODE_ENV=production`, without `oidc-provider`, and when the
   * port is taken.
   */
  static async start({
    port = 0,
    seed = defaultSeed(),
    signingKey,
  }: SandboxOptions = {}): Promise<ExhibitorSandbox> {
    if (process.env['NODE_ENV'] === 'production') {
      throw new Error(
        'ExhibitorSandbox is for development and tests: it does not start with NODE_ENV=production',
      );
    }
    const [oidc, key] = await Promise.all([loadProvider(), createSigningKey(signingKey)]);
    const sandbox = new ExhibitorSandbox(await SandboxServer.listen(port), key, seed);
    const provider = createIdentityProvider(oidc, {
      issuer: sandbox.url,
      seed,
      key,
      tokenLifetime: () => sandbox.tokenLifetime,
      tokenClaims: () => sandbox.#access.nextTokenClaims(),
      signedInAs: () => sandbox.#signedInAs,
    });
    sandbox.server.serve(
      requestListener({
        provider,
        seed,
        log: sandbox.#log,
        faults: sandbox.#faults,
        access: sandbox.#access,
        records: sandbox.#records,
        latency: () => sandbox.latency,
        signedInAs: () => sandbox.#signedInAs,
        connectionOf: (socket) => sandbox.server.connectionOf(socket),
      }),
    );
    return sandbox;
  }

  /** Ends everything, replies under way included; twice does no harm. The process can then exit by itself. */
  stop(): Promise<void> {
    return this.server.close();
  }

  /** The seeded tenants with their ids and credentials. */
  get tenants(): readonly SeedTenant[] {
    return this.seed.tenants;
  }

  /** The people who can log in. */
  get people(): readonly SeedPerson[] {
    return this.seed.people;
  }

  /** The events, those added by {@link setExhibitors} last. */
  get events(): readonly SeedEvent[] {
    return this.#records.events;
  }

  /** The public signing key of the identity provider as PEM (SPKI). */
  get publicKeyPem(): string {
    return this.key.publicKeyPem;
  }

  /** The public signing key as a JWKS; also served at `{url}/connect/jwks`. */
  get publicJwks(): { readonly keys: readonly PublicJwk[] } {
    return this.key.publicJwks;
  }

  /**
   * Options of a tenant for `ExhibitorModule`, as onboarding would hand them out; they work as they are.
   *
   * @example
   * ExhibitorModule.forRoot({ tenants: { acme: sandbox.tenantOptions('acme') }, secrets });
   */
  tenantOptions(key: string, overrides?: TenantOptionsOverrides): SandboxTenantOptions {
    const tenant = this.seed.tenants.find((candidate) => candidate.key === key);
    if (!tenant) {
      const known = this.seed.tenants.map((candidate) => candidate.key).join(', ');
      throw new Error(`ExhibitorSandbox has no tenant "${key}"; it has ${known}`);
    }
    return tenantOptionsOf(tenant, this.url, this.key, overrides);
  }

  /**
   * From now on everyone who is sent to the identity provider is logged in as this person without seeing a page: at
   * every tenant, in every browser, also with `prompt=login` and also where somebody else is logged in. It holds for
   * every authorize request that arrives until `signInAs` is called again; `signInAs(undefined)` brings the page back.
   *
   * @param person e-mail address or `sub` of a seeded person; `mo.mailless` has no address.
   */
  signInAs(person: string | undefined): void {
    const found = this.seed.people.find(({ email, sub }) => person === sub || person === email);
    if (person !== undefined && !found) {
      const known = this.seed.people.map(({ sub }) => sub).join(', ');
      throw new Error(`ExhibitorSandbox knows no such person; it knows ${known} and their e-mail addresses`);
    }
    this.#signedInAs = person === undefined ? undefined : found;
  }

  /** Every request that arrived, oldest first: the last 10,000. Each access is a fresh array of live records. */
  get requests(): readonly SandboxRequest[] {
    return this.#log.requests;
  }

  /** How many requests are under way: arrived, and neither answered to the end nor given up. */
  get openRequests(): number {
    return this.#log.open;
  }

  /** How many TCP connections are open, idle ones included. */
  get openConnections(): number {
    return this.server.openConnections;
  }

  /** Forgets {@link requests}. */
  clearRequests(): void {
    this.#log.clear();
  }

  /**
   * Lets the next requests that match meet a fault.
   *
   * @param times how many; `Infinity` until {@link clearFaults}. Default 1.
   * @example
   * sandbox.failNext({ operation: 'token', tenant: 'acme' }, { kind: 'reset', at: 'mid-body' }, 2);
   */
  failNext(match: FaultMatch, fault: Fault, times = 1): void {
    this.#faults.add(match, fault, times);
  }

  /** Drops the faults that no request has met yet. */
  clearFaults(): void {
    this.#faults.clear();
  }

  /** The REST API refuses every API access token issued so far with 401: those of one tenant, or all. */
  revokeTokens(tenant?: string): void {
    this.#access.revoke(tenant);
  }

  /** The exhibitors of an event as they stand now; empty for an event the tenant does not have. */
  exhibitors(eventId: string, tenant: string): readonly SandboxExhibitor[] {
    return this.#records.find(tenant, eventId) ?? [];
  }

  /** Replaces the exhibitors of an event, at one tenant or at all. An unknown event comes to exist there. */
  setExhibitors(eventId: string, records: readonly SandboxExhibitor[], tenant?: string): void {
    this.#records.replace(eventId, records, tenant);
  }
}
