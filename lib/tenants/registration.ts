import { shortDigestOf } from '../model/digest.js';
import type { LoginSettings } from '../options/tenant-settings.js';

/**
 * Names under which a logout at the provider is recorded and looked for. The first is the {@link registrationOf} of the tenant.
 * Keys that the options contain are replaced from time to time, and then processes with the former and the new ones run at the same
 * time: for such keys there is a name of the tenant itself. No other tenant has its key.
 */
export function registrationsOf(key: string, login: LoginSettings): readonly string[] {
  const { issuer, clientId, keys } = login;
  const isReplaced = keys !== undefined && keys.kind !== 'url';
  const own = isReplaced ? [shortDigestOf(JSON.stringify({ issuer, clientId, tenant: key }))] : [];
  return [registrationOf(login), ...own];
}

/**
 * Names the client registration whose tokens a tenant accepts: issuer, client and source of the keys. A tenant of a source can
 * copy the issuer and the client of another one, but cannot sign by its keys. Tenants that have all three in common are one
 * registration: a logout at the provider ends the logins of all of them. A digest, since it is sealed into cookies.
 */
function registrationOf({ issuer, clientId = '', keys }: LoginSettings): string {
  return shortDigestOf(JSON.stringify([issuer, clientId, sourceOf(keys)]));
}

/** The URL of the keys; `undefined` where the metadata of the issuer names it; else the keys themselves. */
function sourceOf(keys: LoginSettings['keys']): unknown {
  switch (keys?.kind) {
    case 'url':
      return keys.url;
    case 'jwks':
      return keys.jwks.keys;
    case 'pem':
      return { spki: keys.key.export({ type: 'spki', format: 'der' }).toString('base64') };
    case undefined:
      return undefined;
  }
}
