import type { LoginFailureReason } from '../../lib/index.js';
import type { ScriptedProvider, LoginOverrides } from '../support/provider.js';
import type { Script, TokenChange } from '../support/provider-script.js';
import type { Start } from './journey.js';

export type Flow = 'code' | 'code id_token' | 'code token id_token';

export const FLOWS: readonly Flow[] = ['code', 'code id_token', 'code token id_token'];
export const HYBRID: readonly Flow[] = FLOWS.slice(1);

/** A login that must be refused because of one change. */
export interface RefusedCase {
  /** Id of the OpenID Foundation's conformance test, where it has one. */
  id?: string;
  what: string;
  reason: LoginFailureReason;
  script: Script | ((provider: ScriptedProvider, host: Start) => Promise<Script>);
  /** What the unchanged login needs to differ from the default. */
  honest?: Script;
  /** Options of the tenant this case is about. */
  login?: LoginOverrides;
}

/** A change of an ID token, wherever the flow carries one. */
export interface TokenCase extends Omit<RefusedCase, 'script'> {
  token: TokenChange;
}

/**
 * The cases of a changed ID token: of the one the code is exchanged for, or of the one beside the code. A flow that
 * brings an access token along has both.
 */
export function tokenCasesIn(flow: Flow, cases: readonly TokenCase[]): RefusedCase[] {
  return cases.flatMap(({ token, ...rest }) => {
    const back = { ...rest, script: { backToken: token } };
    if (flow === 'code') {
      return [back];
    }
    const front = {
      ...rest,
      what: `${rest.what}, in the front-channel ID token`,
      script: { frontToken: token },
    };
    if (flow === 'code id_token') {
      return [front];
    }
    return [front, { ...back, what: `${rest.what}, in the ID token for the code` }];
  });
}

export function nameOf({ id, what }: { id?: string; what: string }): string {
  return id === undefined ? what : `oidcc-client-test${id}: ${what}`;
}
