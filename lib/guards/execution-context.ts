import type { ExecutionContext } from '@nestjs/common';
import type { ExhibitorContext, ExhibitorRequest } from '../model/exhibitor-request.interface.js';
import type { SessionState } from '../session/identity-reader.service.js';

export interface RequestPair {
  request: ExhibitorRequest;
  response: unknown;
}

interface GraphqlContext {
  req?: ExhibitorRequest & { res?: unknown };
  request?: ExhibitorRequest & { res?: unknown };
  res?: unknown;
  response?: unknown;
  reply?: { request?: ExhibitorRequest & { res?: unknown } };
}

/**
 * Request and response of an HTTP context, or of a GraphQL context of Apollo or Mercurius. Other contexts are refused: what
 * they hold instead of a request (a message, a socket) would be read as one.
 *
 * @param user name of the guard, decorator or service, for the error message
 * @param advice how to do without it, for the error message
 */
export function requestPairOf(context: ExecutionContext, user: string, advice = ''): RequestPair {
  const type = context.getType<string>();
  if (type === 'http') {
    const http = context.switchToHttp();
    return { request: http.getRequest<ExhibitorRequest>(), response: http.getResponse<unknown>() };
  }
  if (type !== 'graphql') {
    throw new Error(`${user} serves HTTP and GraphQL, not '${type}'${advice}`);
  }
  const shared = context.getArgByIndex<GraphqlContext>(2);
  const request = shared.req ?? shared.request ?? shared.reply?.request;
  if (request === undefined) {
    throw new Error('the GraphQL context has no request: return { req, res } from the context option');
  }
  // By default, Nest's Apollo driver passes only the request. Express sets the response on it.
  return { request, response: shared.res ?? shared.reply ?? shared.response ?? request.res };
}

/** What {@link ExhibitorGuard} has found for a user and an event. */
export interface EventResults {
  session: SessionState;
  eventId: string;
  exhibitors: readonly unknown[];
}

/** What a guard has found for a request: for its decorators and for `ExhibitorSelection`. */
export interface GuardResults {
  /** `undefined` where nobody is logged in. */
  session: SessionState | undefined;
  /** Key of the tenant: that of the user, else the one that the request names. */
  tenant: string | undefined;
  /** True where the route allows requests without a user: nothing is required of a user either. */
  allowsAnonymous?: boolean;
  /** `undefined` where the request names none; absent after a guard that asks for none. */
  eventId?: string | undefined;
  exhibitors?: readonly unknown[];
  /** The selected or the only exhibitor. */
  exhibitor?: unknown;
  /** What {@link ExhibitorGuard} has set as `request.exhibitorContext`. */
  context?: ExhibitorContext;
}

/**
 * By request, and by GraphQL field. Not in a member of the request: a host that serializes its request must not find a tenant
 * in it.
 */
const results = new WeakMap<object, GuardResults>();

/** Keeps what a guard has found. It replaces the results of earlier guards of the request. */
export function keepResults(
  execution: ExecutionContext,
  request: ExhibitorRequest,
  found: GuardResults,
): void {
  // ExhibitorIdentityGuard sets no `request.exhibitorContext`. That of an earlier guard is still ours.
  found.context ??= results.get(request)?.context;
  results.set(request, found);
  const field = fieldOf(execution);
  if (field !== undefined) {
    results.set(field, found);
  }
}

/** Results of the last guard of a request. */
export function resultsOf(request: ExhibitorRequest): GuardResults | undefined {
  return results.get(request);
}

/**
 * Results of the guards of this handler.
 *
 * @param user name of the decorator or service, for the error message
 */
export function resultsIn(execution: ExecutionContext, user: string): GuardResults | undefined {
  return results.get(fieldOf(execution) ?? requestPairOf(execution, user).request);
}

/**
 * The `request.exhibitorContext` that a guard of the host has set instead of ours, for example one of `overrideGuard` in a
 * test. It may be incomplete.
 */
export function hostContextIn(
  execution: ExecutionContext,
  user: string,
): Partial<ExhibitorContext> | undefined {
  const field = fieldOf(execution);
  if (field !== undefined && results.has(field)) {
    return undefined;
  }
  const { request } = requestPairOf(execution, user);
  const { exhibitorContext } = request;
  return exhibitorContext === results.get(request)?.context ? undefined : exhibitorContext;
}

/** The `info` of a GraphQL field. The fields of one request run in parallel and may be about different events. */
function fieldOf(execution: ExecutionContext): object | undefined {
  return execution.getType<string>() === 'graphql'
    ? execution.getArgByIndex<object | undefined>(3)
    : undefined;
}
