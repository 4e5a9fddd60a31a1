import { LRUCache } from 'lru-cache';
import type * as OidcProvider from 'oidc-provider';

// The in-memory adapter of `oidc-provider` keeps 1,000, which some hundred logins fill.
const MOST_ENTRIES = 20_000;
/** In characters of JSON. The parameters of a login are in its entries. */
const MOST_TEXT = 32 * 1024 * 1024;

/** Creates the in-memory storage of an identity provider: sessions, interactions, grants, codes and access tokens. */
export function createProviderStorage(): OidcProvider.AdapterFactory {
  const entries = new LRUCache<string, OidcProvider.AdapterPayload>({
    max: MOST_ENTRIES,
    maxSize: MOST_TEXT,
    sizeCalculation: (payload) => JSON.stringify(payload).length,
  });

  return (model) => ({
    upsert: async (id, payload, expiresIn) => {
      entries.set(`${model}:${id}`, payload, { ttl: expiresIn && expiresIn * 1000 });
    },
    find: async (id) => entries.get(`${model}:${id}`),
    findByUid: async (uid) =>
      [...entries.values()].find((payload) => payload.kind === 'Session' && payload.uid === uid),
    // Used by the device flow only, which the sandbox does not support.
    findByUserCode: async () => undefined,
    consume: async (id) => {
      Object.assign(entries.get(`${model}:${id}`) ?? {}, { consumed: Math.floor(Date.now() / 1000) });
    },
    destroy: async (id) => {
      entries.delete(`${model}:${id}`);
    },
    // A code that is used twice is refused. The tokens that it was good for expire.
    revokeByGrantId: async () => undefined,
  });
}
