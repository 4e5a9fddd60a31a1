/** What Nest says of a route (its request and response, what is declared on its handler), and what the guards have found for it. */
import type { ExecutionContext } from '@nestjs/common';
import { GUARDS_METADATA } from '@nestjs/common/constants.js';
import { Reflector } from '@nestjs/core';
import type { ExhibitorContext, ExhibitorRequest } from '../model/exhibitor-request.interface.js';

type SharedRequest = ExhibitorRequest & { res?: unknown };

interface GraphqlContext {
  req?: SharedRequest;
  request?: SharedRequest;
  res?: unknown;
  response?: unknown;
  reply?: { request?: SharedRequest };
}

/**
 * Request and response of an HTTP context, or of a GraphQL context of Apollo or Mercurius. Other contexts are refused: what
 * they hold instead of a request (a message, a socket) would be read as one.
 *
 * @param caller name of the guard, decorator or service, for the error message
 */
export function requestPairOf(
  context: ExecutionContext,
  caller: string,
): { request: ExhibitorRequest; response: unknown } {
  const type = context.getType<string>();
  if (type === 'http') {
    const http = context.switchToHttp();
    return { request: http.getRequest<ExhibitorRequest>(), response: http.getResponse<unknown>() };
  }
  if (type !== 'graphql') {
    throw new Error(`${caller} serves HTTP and GraphQL, not '${type}'`);
  }
  const shared = context.getArgByIndex<GraphqlContext>(2);
  const request = shared.req ?? shared.request ?? shared.reply?.request;
  if (request === undefined) {
    throw new Error('the GraphQL context has no request: return { req, res } from the context option');
  }
  // By default, Nest's Apollo driver passes only the request. Express sets the response on it.
  return { request, response: shared.res ?? shared.reply ?? shared.response ?? request.res };
}

/** Key of the metadata of `@AllowAnonymous()`. */
export const ALLOW_ANONYMOUS = Symbol.for('nestjs-exhibitor.allow-anonymous');

/** A handler or a controller. */
type Target = Parameters<Reflector['get']>[1];

const reflector = new Reflector();

/** What `@AllowAnonymous()` says on this handler or controller; `undefined` without it. */
export function declaredOn(target: Target): boolean | undefined {
  return reflector.get<boolean | undefined>(ALLOW_ANONYMOUS, target);
}

/** The classes and instances in `@UseGuards` of this handler or controller. */
export function guardsOn(target: Target): readonly unknown[] {
  return reflector.get<unknown[] | undefined>(GUARDS_METADATA, target) ?? [];
}

/** Finds the event of a request whose guards needed none. */
export const FIND_EVENT = Symbol('nestjs-exhibitor.find-event');

/** What guards have found. The symbol is on no copy by JSON or `structuredClone`. */
export type Results = Partial<ExhibitorContext> & { [FIND_EVENT]?: () => Promise<string | undefined> };

/** In GraphQL by field: the fields of one request run in parallel and may be about different events. */
const resultsByField = new WeakMap<object, Partial<ExhibitorContext>>();

/** Results of our guards for one field. `request.exhibitorContext` holds the newest ones, which another field must not read. */
const resultsOfOneField = new WeakSet<object>();

/** Keeps what a guard has found: on the request, and for its field of GraphQL. */
export function keepResults(
  context: ExecutionContext,
  request: ExhibitorRequest,
  found: Partial<ExhibitorContext>,
): void {
  request.exhibitors = found.exhibitors;
  request.exhibitorContext = found;
  const field = fieldOf(context);
  if (field !== undefined) {
    resultsByField.set(field, found);
    resultsOfOneField.add(found);
  }
}

/** What the guards of this handler have found. A field of GraphQL without such results has those that a guard of the host has set. */
export function resultsIn(context: ExecutionContext, request: ExhibitorRequest): Results | undefined {
  const { exhibitorContext } = request;
  const field = fieldOf(context);
  if (field === undefined) {
    return exhibitorContext;
  }
  const isOfHost = exhibitorContext !== undefined && !resultsOfOneField.has(exhibitorContext);
  return resultsByField.get(field) ?? (isOfHost ? exhibitorContext : undefined);
}

/** The `info` of a GraphQL field. */
function fieldOf(context: ExecutionContext): object | undefined {
  return context.getType<string>() === 'graphql' ? context.getArgByIndex<object | undefined>(3) : undefined;
}
