import type { ExecutionContext } from '@nestjs/common';
import type { ExhibitorContext, ExhibitorRequest } from '../model/exhibitor-request.interface.js';
import type { SessionState } from '../session/identity-reader.service.js';
import { requestPairOf } from './execution-request.js';

/** Results of the guards of a request, for the decorators and the selection. */
export interface RequestState {
  session: SessionState;
  eventId?: string;
  /** The selected or the only exhibitor. */
  exhibitor?: unknown;
  exhibitors?: readonly unknown[];
}

/** What was found for a request, so that further guards and decorators do not ask again. */
interface RequestMemory {
  state?: RequestState;
  /** What {@link ExhibitorGuard} has set as `request.exhibitorContext`. */
  context?: ExhibitorContext;
  /** Answers of the functions of the host, by the name of the option. */
  answers?: Map<string, string | undefined>;
  /** The user, by the tenant that was asked for. */
  user?: { tenantKey: string | undefined; session: SessionState };
  lookup?: { session: SessionState; eventId: string; exhibitors: readonly unknown[] };
}

/** By request or GraphQL field. Not in a member: a host that serializes its request must not find a tenant in it. */
const memories = new WeakMap<object, RequestMemory>();

/** Finds or creates the memory of a request or of a field of GraphQL. */
export function memoryOf(subject: object): RequestMemory {
  const known = memories.get(subject);
  if (known !== undefined) {
    return known;
  }
  const memory = {};
  memories.set(subject, memory);
  return memory;
}

/** The memory of the handler: of its GraphQL field, else of the request. */
export function memoryIn(context: ExecutionContext, request: ExhibitorRequest): RequestMemory {
  return memoryOf(fieldOf(context) ?? request);
}

/** Sets `request.exhibitorContext` as a result of {@link ExhibitorGuard}. */
export function setContext(request: ExhibitorRequest, context: ExhibitorContext): void {
  memoryOf(request).context = context;
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
  if (field !== undefined && memories.get(field)?.state !== undefined) {
    return undefined;
  }
  const { request } = requestPairOf(context, user);
  const { exhibitorContext } = request;
  return exhibitorContext === memories.get(request)?.context ? undefined : exhibitorContext;
}

/** Keeps the results of a guard, for its handler and for further guards. */
export function rememberState(
  request: ExhibitorRequest,
  state: RequestState,
  context?: ExecutionContext,
): void {
  memoryOf(request).state = state;
  const field = context && fieldOf(context);
  if (field !== undefined) {
    memoryOf(field).state = state;
  }
}

/** Results of the last guard of a request. */
export function stateOf(request: ExhibitorRequest): RequestState | undefined {
  return memories.get(request)?.state;
}

/**
 * Results of the guards of this handler.
 *
 * @param user name of the decorator or service, for the error message
 */
export function stateIn(context: ExecutionContext, user: string): RequestState | undefined {
  return memories.get(fieldOf(context) ?? requestPairOf(context, user).request)?.state;
}

/** The `info` of a GraphQL field. The fields of one request run in parallel and may be about different events. */
function fieldOf(context: ExecutionContext): object | undefined {
  return context.getType<string>() === 'graphql' ? context.getArgByIndex<object | undefined>(3) : undefined;
}
