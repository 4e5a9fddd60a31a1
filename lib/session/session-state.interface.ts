import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import type { SessionMode } from '../options/exhibitor-options.interface.js';
import type { Tenant } from '../tenants/tenant.js';
import type { Selections } from './stored-selections.js';

/** The user of a request. */
export interface SessionState {
  identity: ExhibitorIdentity;
  /** Selected exhibitor by event. */
  selections: Selections;
  tenant: Tenant;
  /** Where the identity was found. */
  mode: SessionMode;
  /** End of the login, in ms since 1970, where the identity may be extended until then. */
  endsAt?: number;
}
