import type { SessionState } from '../login/identity-session.service.js';
import type { ExhibitorRequest } from '../options/exhibitor-request.interface.js';

/** What the guards found out about a request, for the decorators and the selection. */
export interface RequestState {
  session: SessionState;
  eventId?: string;
  /** The one chosen or the only one, where there is one. */
  exhibitor?: unknown;
  exhibitors?: readonly unknown[];
}

// Kept beside the request, not on it: a host that serializes its request must not find a tenant there.
const states = new WeakMap<ExhibitorRequest, RequestState>();

export function rememberState(request: ExhibitorRequest, state: RequestState): void {
  states.set(request, state);
}

export function stateOf(request: ExhibitorRequest): RequestState | undefined {
  return states.get(request);
}
