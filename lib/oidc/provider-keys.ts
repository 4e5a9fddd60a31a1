import type { CompactVerifyGetKey } from 'jose';
import type { KeySource } from '../options/key-source.js';
import { uselessKeySet } from '../problems/provider-problems.js';
import type { Tenant } from '../tenants/tenant.js';
import type { Deadline } from '../time/deadline.js';
import { keySetOf, type KeySet } from './key-set.js';
import { ProviderDocuments, type DocumentTools } from './provider-documents.js';

/** Public keys to verify the tokens of a tenant's provider. */
export class ProviderKeys {
  readonly #published: ProviderDocuments<KeySet>;
  readonly #fixed = new WeakMap<KeySource, Promise<KeySet>>();

  constructor(tools: DocumentTools) {
    this.#published = new ProviderDocuments(
      {
        operation: 'keys',
        name: 'the keys of the provider',
        urlOf: (url) => url,
        parse: (body, tenant) => {
          const keys = keySetOf(body);
          // Also where the last good keys are used meanwhile.
          keys.catch(() => tools.log.report(tenant, uselessKeySet(tenant)));
          return keys;
        },
      },
      tools,
    );
  }

  /**
   * The keys for a token whose header has this `kid`. They are fetched again where none has it, and where its signature fits none
   * of `used`. The answer is `used` where there are no newer ones.
   */
  async keysFor(
    tenant: Tenant,
    source: KeySource,
    kid: string | undefined,
    deadline: Deadline,
    used?: CompactVerifyGetKey,
  ): Promise<CompactVerifyGetKey> {
    if (source.kind === 'pem') {
      return used ?? (() => source.key);
    }
    if (source.kind === 'jwks') {
      return (await this.#fixedKeys(source)).getKey;
    }
    const keys = await this.#published.read(tenant, source.url, deadline);
    const isMissing = used === undefined ? kid !== undefined && !keys.kids.has(kid) : keys.getKey === used;
    return isMissing ? (await this.#published.read(tenant, source.url, deadline, keys)).getKey : keys.getKey;
  }

  /** A tenant was forgotten: the next caller fetches its keys. */
  expire(tenant: Tenant): void {
    this.#published.expire(tenant);
  }

  #fixedKeys(source: Extract<KeySource, { kind: 'jwks' }>): Promise<KeySet> {
    const known = this.#fixed.get(source) ?? keySetOf(source.jwks);
    this.#fixed.set(source, known);
    return known;
  }
}
