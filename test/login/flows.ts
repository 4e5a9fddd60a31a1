import type { LoginFailureReason } from '../../lib/index.js';
import type { ScriptedProvider, LoginOverrides } from '../support/provider.js';
import type { Script, TokenChange } from '../support/provider-script.js';
import type { Start } from './journey.js';

export type Flow = 'code' | 'code id_token' | 'code token id_token';

export const FLOWS: readonly Flow[] = ['code', 'code id_token', 'code token id_token'];
export const HYBRID: readonly Flow[] = FLOWS.slice(1);

/** A login that must be refused because of one change. */
export interface RefusedCase {
  /** Id of the conformance test of the OpenID Foundation, where there is one. */
  id?: string;
  what: string;
  reason: LoginFailureReason;
  script: Script | ((provider: ScriptedProvider, host: Start) => Promise<Script>);
  /** Script of the unchanged login, where it differs from the default. */
  honest?: Script;
  /** Login options of the tenant. */
  login?: LoginOverrides;
}

/** A change of each ID token of a flow. */
export interface TokenCase extends Omit<RefusedCase, 'script'> {
  token: TokenChange;
}

/**
 * The cases of a changed ID token: of the one of the token endpoint, or of the one in the authorization response. A
 * flow with an access token in the response has a list of both.
 */
export function tokenCasesIn(flow: Flow, cases: readonly TokenCase[]): RefusedCase[][] {
  const back = cases.map(({ token, ...rest }) => ({ ...rest, script: { backToken: token } }));
  if (flow === 'code') {
    return [back];
  }
  const front = cases.map(({ token, ...rest }) => ({
    ...rest,
    what: `${rest.what}, in the front-channel ID token`,
    script: { frontToken: token },
  }));
  if (flow === 'code id_token') {
    return [front];
  }
  return [
    front,
    back.map((refused) => ({ ...refused, what: `${refused.what}, in the ID token for the code` })),
  ];
}

export function nameOf({ id, what }: { id?: string; what: string }): string {
  return id === undefined ? what : `oidcc-client-test${id}: ${what}`;
}
