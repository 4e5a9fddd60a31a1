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
class RequestMemory {
  state?: RequestState;
  /** What {@link ExhibitorGuard} has set as `request.exhibitorContext`. */
  context?: ExhibitorContext;
  /** Answers of the functions of the host, by the name of the option. */
  answers?: Map<string, string | undefined>;
  /** The user, by the tenant that was asked for. */
  user?: { tenantKey: string | undefined; session: SessionState };
  lookup?: { session: SessionState; eventId: string; exhibitors: readonly unknown[] };
}

// oxlint-disable-next-line typescript/no-extraneous-class -- what its constructor returns receives the fields of a subclass
class ReturnOverride {
  constructor(subject: object) {
    return subject;
  }
}

/**
 * Adds a memory to a request, in a private field: a host that serializes its request must not find a tenant in it. A WeakMap
 * would hide it as well, but a table that gains an entry at each request costs several microseconds of garbage collection.
 */
class MemoryField extends ReturnOverride {
  readonly #memory = new RequestMemory();

  static find(subject: object): RequestMemory | undefined {
    return #memory in subject ? subject.#memory : undefined;
  }

  static add(subject: object): RequestMemory {
    return new MemoryField(subject).#memory;
  }
}

/** Finds or creates the memory of a request or of a field of GraphQL. */
export function memoryOf(subject: object): RequestMemory {
  return MemoryField.find(subject) ?? MemoryField.add(subject);
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
  if (field !== undefined && MemoryField.find(field)?.state !== undefined) {
    return undefined;
  }
  const { request } = requestPairOf(context, user);
  const { exhibitorContext } = request;
  return exhibitorContext === MemoryField.find(request)?.context ? undefined : exhibitorContext;
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
  return MemoryField.find(request)?.state;
}

/**
 * Results of the guards of this handler.
 *
 * @param user name of the decorator or service, for the error message
 */
export function stateIn(context: ExecutionContext, user: string): RequestState | undefined {
  return MemoryField.find(fieldOf(context) ?? requestPairOf(context, user).request)?.state;
}

/** The `info` of a GraphQL field. The fields of one request run in parallel and may be about different events. */
function fieldOf(context: ExecutionContext): object | undefined {
  return context.getType<string>() === 'graphql' ? context.getArgByIndex<object | undefined>(3) : undefined;
}
