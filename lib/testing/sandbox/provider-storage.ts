import { LRUCache } from 'lru-cache';
import type { Adapter, AdapterFactory, AdapterPayload } from 'oidc-provider';

// The in-memory adapter of `oidc-provider` keeps 1,000 entries in total, which is too few for a load test.
// With `max` instead of `maxSize`, lru-cache would allocate memory for all entries at once (14 ms).
const LIMIT = { maxSize: 50_000, sizeCalculation: () => 1 };
// Interactions also name a grant, but remain valid when it is revoked.
const REVOKED_WITH_GRANT = new Set(['AccessToken', 'AuthorizationCode']);

/** Creates the in-memory storage of an identity provider: sessions, interactions, grants, codes and access tokens. */
export function createProviderStorage(): AdapterFactory {
  const entries = new LRUCache<string, AdapterPayload>(LIMIT);
  const keysByGrant = new LRUCache<string, Set<string>>(LIMIT);
  const sessionByUid = new LRUCache<string, string>(LIMIT);

  return (model) => new ModelStorage(model, entries, keysByGrant, sessionByUid);
}

class ModelStorage implements Adapter {
  constructor(
    private readonly model: string,
    private readonly entries: LRUCache<string, AdapterPayload>,
    private readonly keysByGrant: LRUCache<string, Set<string>>,
    private readonly sessionByUid: LRUCache<string, string>,
  ) {}

  async upsert(id: string, payload: AdapterPayload, expiresIn?: number): Promise<void> {
    const key = this.#key(id);
    this.entries.set(key, payload, expiresIn === undefined ? {} : { ttl: Math.max(1, expiresIn * 1000) });
    if (this.model === 'Session' && payload.uid) {
      this.sessionByUid.set(payload.uid, key);
    }
    if (payload.grantId && REVOKED_WITH_GRANT.has(this.model)) {
      this.keysByGrant.set(payload.grantId, (this.keysByGrant.get(payload.grantId) ?? new Set()).add(key));
    }
  }

  async find(id: string): Promise<AdapterPayload | undefined> {
    return this.entries.get(this.#key(id));
  }

  async findByUid(uid: string): Promise<AdapterPayload | undefined> {
    const key = this.sessionByUid.get(uid);
    return key === undefined ? undefined : this.entries.get(key);
  }

  /** Used by the device flow only, which the sandbox does not support. */
  async findByUserCode(): Promise<undefined> {
    return undefined;
  }

  async consume(id: string): Promise<void> {
    const payload = this.entries.get(this.#key(id));
    if (payload) {
      payload.consumed = Math.floor(Date.now() / 1000);
    }
  }

  async destroy(id: string): Promise<void> {
    this.entries.delete(this.#key(id));
  }

  async revokeByGrantId(grantId: string): Promise<void> {
    for (const key of this.keysByGrant.get(grantId) ?? []) {
      this.entries.delete(key);
    }
    this.keysByGrant.delete(grantId);
  }

  #key(id: string): string {
    return `${this.model}:${id}`;
  }
}
