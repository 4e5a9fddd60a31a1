import type { ExecutionContext } from '@nestjs/common';
import type { ExhibitorContext, ExhibitorRequest } from '../model/exhibitor-request.interface.js';
import { requestPairOf } from './execution-request.js';
import {
  foundMemoryOf,
  isExtended,
  memoryOf,
  type Attached,
  type RequestMemory,
  type RequestState,
} from './request-memory.js';

/** The memory of the handler: of its GraphQL field, else of the request. */
export function memoryIn(context: ExecutionContext, request: ExhibitorRequest): RequestMemory {
  return memoryOf(fieldOf(context) ?? request);
}

/** Sets `request.exhibitors` and `request.exhibitorContext` as results of {@link ExhibitorGuard}. */
export function setContext(request: ExhibitorRequest, context: ExhibitorContext): void {
  const memory = memoryOf(request);
  memory.context = context;
  const attached: Attached = isExtended(request) ? memory : request;
  attached.exhibitors = context.exhibitors;
  attached.exhibitorContext = context;
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
  if (field !== undefined && foundMemoryOf(field)?.state !== undefined) {
    return undefined;
  }
  const { request } = requestPairOf(context, user);
  const { exhibitorContext } = request;
  return exhibitorContext === foundMemoryOf(request)?.context ? undefined : exhibitorContext;
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
  return foundMemoryOf(request)?.state;
}

/**
 * Results of the guards of this handler.
 *
 * @param user name of the decorator or service, for the error message
 */
export function stateIn(context: ExecutionContext, user: string): RequestState | undefined {
  return foundMemoryOf(fieldOf(context) ?? requestPairOf(context, user).request)?.state;
}

/** The `info` of a GraphQL field. The fields of one request run in parallel and may be about different events. */
function fieldOf(context: ExecutionContext): object | undefined {
  return context.getType<string>() === 'graphql' ? context.getArgByIndex<object | undefined>(3) : undefined;
}
