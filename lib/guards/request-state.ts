import type { ExecutionContext } from '@nestjs/common';
import type { SessionState } from '../session/identity-session.service.js';
import type { ExhibitorRequest } from '../model/exhibitor-request.interface.js';
import { requestPairOf } from './execution-request.js';

/** What the guards found out about a request, for the decorators and the selection. */
export interface RequestState {
  session: SessionState;
  eventId?: string;
  /** The one chosen or the only one, where there is one. */
  exhibitor?: unknown;
  exhibitors?: readonly unknown[];
}

// Kept beside the request, not on it: a host that serializes its request must not find a tenant there.
const states = new WeakMap<object, RequestState>();

export function rememberState(
  request: ExhibitorRequest,
  state: RequestState,
  context?: ExecutionContext,
): void {
  states.set(request, state);
  const field = context && fieldOf(context);
  if (field !== undefined) {
    states.set(field, state);
  }
}

/** What the last guard found out about a request. */
export function stateOf(request: ExhibitorRequest): RequestState | undefined {
  return states.get(request);
}

/** What the guard of this very handler found out. */
export function stateIn(context: ExecutionContext): RequestState | undefined {
  return states.get(fieldOf(context) ?? requestPairOf(context).request);
}

/** The fields of one GraphQL request run side by side, each maybe about another event; each has an `info` of its own. */
function fieldOf(context: ExecutionContext): object | undefined {
  return context.getType<string>() === 'graphql' ? context.getArgByIndex<object | undefined>(3) : undefined;
}
