/** What Nest says of a route (its request and response, what is declared on its handler), and what the guards have found for it. */
import { SetMetadata, type ExecutionContext } from '@nestjs/common';
import { GUARDS_METADATA } from '@nestjs/common/constants.js';
import { Reflector } from '@nestjs/core';
import type { HttpContext } from '../browser/http-context.js';
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

/** Key of the metadata of a controller: names of its handlers with `@CurrentExhibitor()`. */
const OF_ONE_EXHIBITOR = Symbol.for('nestjs-exhibitor.of-one-exhibitor');

/** Key of the metadata of the handlers of `choose`. */
const CHOOSING = Symbol.for('nestjs-exhibitor.choosing');

/** A handler or a controller. */
type Target = Parameters<Reflector['get']>[1];

const reflector = new Reflector();

/** What `@AllowAnonymous()` says on this handler or controller; `undefined` without it. */
export function declaredOn(target: Target): boolean | undefined {
  return reflector.get<boolean | undefined>(ALLOW_ANONYMOUS, target);
}

/** Marks the handlers of `choose`: their requests name the event themselves, and no exhibitor. */
export const Choosing = (): MethodDecorator => SetMetadata(CHOOSING, true);

export function isChoosing(context: ExecutionContext): boolean {
  return reflector.get<boolean | undefined>(CHOOSING, context.getHandler()) === true;
}

/** Marks a handler as one that needs the exhibitor that was chosen. By name, as Nest keeps parameters: a subclass inherits them. */
export function markOfOneExhibitor(prototype: object, handler: string | symbol): void {
  const { constructor } = prototype;
  if (typeof constructor === 'function') {
    SetMetadata(OF_ONE_EXHIBITOR, [...handlersOfOneExhibitor(constructor), handler])(constructor);
  }
}

/** True where the handler of this context has `@CurrentExhibitor()`. */
export function isOfOneExhibitor(context: ExecutionContext): boolean {
  const type = context.getClass();
  return handlersOfOneExhibitor(type).some((name) => type.prototype[name] === context.getHandler());
}

function handlersOfOneExhibitor(controller: Target): readonly (string | symbol)[] {
  return reflector.get<(string | symbol)[] | undefined>(OF_ONE_EXHIBITOR, controller) ?? [];
}

/** The classes and instances in `@UseGuards` of this handler or controller. */
export function guardsOn(target: Target): readonly unknown[] {
  return reflector.get<unknown[] | undefined>(GUARDS_METADATA, target) ?? [];
}

/** Finds the event of a request whose guards needed none. */
export const FIND_EVENT = Symbol('nestjs-exhibitor.find-event');

/** What guards have found. The symbol is on no copy by JSON or `structuredClone`. */
export type Results = Partial<ExhibitorContext> & { [FIND_EVENT]?: () => Promise<string | undefined> };

/**
 * In GraphQL, by the `info` of a field: the fields of one request run in parallel and may be about different events. Results are keys too:
 * `request.exhibitorContext` has those of the field that was last, and by this another field knows that they are not its own.
 */
const resultsByField = new WeakMap<object, Results>();

/** Keeps what a guard has found: on the request, and for its field of GraphQL. */
export function keepResults({ context, request }: HttpContext, found: Results): void {
  request.exhibitors = found.exhibitors;
  request.exhibitorContext = found;
  const field = graphqlFieldOf(context);
  if (field !== undefined) {
    resultsByField.set(field, found).set(found, found);
  }
}

/** What the guards of this handler have found. A field of GraphQL without any has what a guard of the host has set on the request. */
export function resultsIn(
  context: ExecutionContext,
  { exhibitorContext }: ExhibitorRequest,
): Results | undefined {
  const field = graphqlFieldOf(context);
  if (field === undefined || exhibitorContext === undefined) {
    return exhibitorContext;
  }
  return resultsByField.get(field) ?? (resultsByField.has(exhibitorContext) ? undefined : exhibitorContext);
}

function graphqlFieldOf(context: ExecutionContext): object | undefined {
  return context.getType<string>() === 'graphql' ? context.getArgByIndex<object | undefined>(3) : undefined;
}
