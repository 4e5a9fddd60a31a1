import { FaultQueue } from './fault-queue.js';
import { RequestLog } from './request-log.js';
import { ApiAccessCheck, ExhibitorRecords } from './rest-api.js';
import { tenantOfLogin, type SandboxSeed, type SeedPerson } from './seed.js';
import type { SigningKey } from './signing-key.js';

/** What the servers of a sandbox read, and what its test changes meanwhile. */
export class SandboxState {
  /** Delay of REST replies in milliseconds. */
  latency = 0;
  /** Lifetime in seconds of the next access token for the REST API. */
  tokenLifetime = 3600;
  /** The person to log in without the login page. */
  signedInAs: SeedPerson | undefined;
  /** Where a login may end. Default: at every http URI on loopback. */
  redirectUris: readonly string[] | undefined;
  /** Addresses of hosts that receive logout tokens, by tenant key. */
  readonly logoutUris = new Map<string, string | undefined>();
  readonly faults = new FaultQueue();
  readonly log: RequestLog;
  readonly records: ExhibitorRecords;
  readonly access: ApiAccessCheck;

  constructor(
    /** Origin of the REST API and of the identity provider, and the issuer. */
    readonly url: string,
    readonly seed: SandboxSeed,
    readonly key: SigningKey,
  ) {
    this.log = new RequestLog(seed.tenants);
    this.records = new ExhibitorRecords(seed);
    this.access = new ApiAccessCheck(url, key.publicKey, seed.tenants);
  }

  /** Address that receives the logout tokens of a login client: that of the seed, until a test sets another. */
  logoutUriOf(clientId: string): string | undefined {
    const tenant = tenantOfLogin(this.seed, clientId);
    return tenant && (this.logoutUris.get(tenant.key) ?? tenant.backChannelLogoutUri);
  }
}
