import { FaultQueue } from './faults.js';
import type { SigningKey } from './provider/signing-key.js';
import { RestApi } from './rest-api.js';
import type { SandboxOptions } from './sandbox-options.js';
import type { SandboxSeed, SeedPerson } from './seed/seed.js';
import { RequestLog } from './server/request-log.js';

/** What the servers of a sandbox read, and what its test changes meanwhile. */
export class SandboxState {
  /** The person to log in without the login page. */
  signedInAs: SeedPerson | undefined;
  /** Addresses of hosts that receive the logout tokens of login clients, by tenant key. */
  readonly logoutUris: Map<string, string | undefined>;
  readonly faults = new FaultQueue();
  readonly log: RequestLog;
  readonly api: RestApi;

  constructor(
    /** Origin of the REST API and of the identity provider, and the issuer. */
    readonly url: string,
    readonly seed: SandboxSeed,
    readonly key: SigningKey,
    /** The sandbox, whose fields a test may change at any time. */
    readonly settings: { readonly latency: number; readonly tokenLifetime: number },
    readonly options: SandboxOptions,
  ) {
    this.logoutUris = new Map(seed.tenants.map((tenant) => [tenant.key, tenant.backChannelLogoutUri]));
    this.log = new RequestLog(seed);
    this.api = new RestApi(url, key.publicKey, seed);
  }
}
