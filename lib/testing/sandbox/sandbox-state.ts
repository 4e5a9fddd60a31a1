import { ApiTokens } from './rest-api/api-tokens.js';
import { ExhibitorRecords } from './rest-api/exhibitor-records.js';
import { FaultQueue } from './faults/fault-queue.js';
import { RequestLog } from './server/request-log.js';
import { tenantOfClient, type SandboxSeed, type SeedPerson } from './seed/seed.js';
import type { SigningKey } from './provider/signing-key.js';

/** What the servers of a sandbox read, and what its test changes meanwhile. */
export class SandboxState {
  /** The person to log in without the login page. */
  signedInAs: SeedPerson | undefined;
  /** Addresses of hosts that receive logout tokens, by tenant key. */
  readonly logoutUris = new Map<string, string | undefined>();
  readonly faults: FaultQueue;
  readonly log: RequestLog;
  readonly records: ExhibitorRecords;
  readonly tokens: ApiTokens;

  constructor(
    /** Origin of the REST API and of the identity provider, and the issuer. */
    readonly url: string,
    readonly seed: SandboxSeed,
    readonly key: SigningKey,
    /** The sandbox, whose fields a test may change at any time. */
    readonly settings: { readonly latency: number; readonly tokenLifetime: number },
    /** Where a login may end. Default: at every http URI on loopback. */
    readonly redirectUris?: readonly string[],
    /** Names besides those of loopback that requests may have in `Host`. */
    readonly hosts: readonly string[] = [],
  ) {
    this.faults = new FaultQueue();
    this.log = new RequestLog(seed);
    this.records = new ExhibitorRecords(seed);
    this.tokens = new ApiTokens(url, key.publicKey, seed);
  }

  /** Address that receives the logout tokens of a login client: that of the seed, until a test sets another. */
  logoutUriOf(clientId: string): string | undefined {
    const tenant = tenantOfClient(this.seed, clientId);
    return tenant && (this.logoutUris.get(tenant.key) ?? tenant.backChannelLogoutUri);
  }
}
