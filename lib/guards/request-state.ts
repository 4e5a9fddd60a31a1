import type { ExecutionContext } from '@nestjs/common';
import type { ExhibitorContext, ExhibitorRequest } from '../model/exhibitor-request.interface.js';
import type { SessionState } from '../session/identity-session.service.js';
import { requestPairOf } from './execution-request.js';

/** Results of the guards of a request, for the decorators and the selection. */
export interface RequestState {
  session: SessionState;
  eventId?: string;
  /** The selected or the only exhibitor. */
  exhibitor?: unknown;
  exhibitors?: readonly unknown[];
}

/** Not stored on the request itself: a host that serializes its request must not find a tenant in it. */
const states = new WeakMap<object, RequestState>();

/** The values of `request.exhibitorContext` that {@link ExhibitorGuard} has set. */
const ownContexts = new WeakSet<ExhibitorContext>();

/** Sets `request.exhibitorContext` as a result of {@link ExhibitorGuard}. */
export function setContext(request: ExhibitorRequest, context: ExhibitorContext): void {
  ownContexts.add(context);
  request.exhibitorContext = context;
}

/**
 * The `request.exhibitorContext` that a guard of the host has set instead of ours, for example one of `overrideGuard` in a
 * test. It may be incomplete.
 */
export function hostContextIn(
  context: ExecutionContext,
  user: string,
): Partial<ExhibitorContext> | undefined {
  const field = fieldOf(context);
  if (field !== undefined && states.has(field)) {
    return undefined;
  }
  const { exhibitorContext } = requestPairOf(context, user).request;
  return exhibitorContext !== undefined && !ownContexts.has(exhibitorContext) ? exhibitorContext : undefined;
}

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

/** Results of the last guard of a request. */
export function stateOf(request: ExhibitorRequest): RequestState | undefined {
  return states.get(request);
}

/**
 * Results of the guards of this handler.
 *
 * @param user name of the decorator or service, for the error message
 */
export function stateIn(context: ExecutionContext, user: string): RequestState | undefined {
  return states.get(fieldOf(context) ?? requestPairOf(context, user).request);
}

/** The `info` of a GraphQL field. The fields of one request run in parallel and may be about different events. */
function fieldOf(context: ExecutionContext): object | undefined {
  return context.getType<string>() === 'graphql' ? context.getArgByIndex<object | undefined>(3) : undefined;
}
