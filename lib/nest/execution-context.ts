/**
 * What a guard reads from Nest's `ExecutionContext`: request and response, and the metadata of decorators on handler and controller. What
 * it has found is kept here too, for the decorators of parameters.
 */
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

/** GraphQL shows no pages, has no redirects, and its requests have no parameters of a route. */
export function isOverHttp({ context }: HttpContext): boolean {
  return context.getType<string>() === 'http';
}

/** Key of the metadata of `@AllowAnonymous()`. */
export const ALLOW_ANONYMOUS = Symbol.for('nestjs-exhibitor.allow-anonymous');

/** Key of the metadata of the handlers of `choose`. */
const CHOOSING = Symbol.for('nestjs-exhibitor.choosing');

/** Marks the handlers of `choose`: their requests name the event themselves, and no exhibitor. */
export const Choosing = (): MethodDecorator => SetMetadata(CHOOSING, true);

/** A handler or a controller. */
type Target = Parameters<Reflector['get']>[1];

/** What decorators say on a handler or a controller. */
interface Declared {
  /** Of `@AllowAnonymous()`; `undefined` without it. */
  allowsAnonymous: boolean | undefined;
  /** True for a handler of `choose`. */
  isChoosing: boolean;
  /** The classes and instances in `@UseGuards`. */
  guards: readonly unknown[];
}

interface DeclaredOnRoute extends Declared {
  controller: Declared;
}

const reflector = new Reflector();

/** By controller, then handler. Read once: to look for metadata at each request takes a tenth of a guard's time. */
const declared = new WeakMap<Target, WeakMap<Target, DeclaredOnRoute>>();

/** What decorators say on the handler of a route, and on its controller. */
export function declaredOn(route: ExecutionContext): DeclaredOnRoute {
  const [handler, controller] = [route.getHandler(), route.getClass()];
  const ofController = declared.get(controller) ?? new WeakMap<Target, DeclaredOnRoute>();
  const known = ofController.get(handler);
  if (known !== undefined) {
    return known;
  }
  const read = { ...readFrom(handler), controller: readFrom(controller) };
  declared.set(controller, ofController.set(handler, read));
  return read;
}

function readFrom(target: Target): Declared {
  return {
    allowsAnonymous: reflector.get<boolean | undefined>(ALLOW_ANONYMOUS, target),
    isChoosing: reflector.get<boolean | undefined>(CHOOSING, target) === true,
    guards: reflector.get<unknown[] | undefined>(GUARDS_METADATA, target) ?? [],
  };
}

/** Key of the metadata of a controller: names of its handlers with `@CurrentExhibitor()`. */
const EXHIBITOR_HANDLERS = Symbol.for('nestjs-exhibitor.exhibitor-handlers');

/** Marks a handler that has `@CurrentExhibitor()`. By name, as Nest keeps parameters: a subclass of the controller inherits them. */
export function markCurrentExhibitor(prototype: object, handler: string | symbol): void {
  const { constructor } = prototype;
  if (typeof constructor === 'function') {
    SetMetadata(EXHIBITOR_HANDLERS, [...exhibitorHandlersOf(constructor), handler])(constructor);
  }
}

/** True where the handler of this context has `@CurrentExhibitor()`. */
export function hasCurrentExhibitor(context: ExecutionContext): boolean {
  const controller = context.getClass();
  return exhibitorHandlersOf(controller).some((name) => controller.prototype[name] === context.getHandler());
}

function exhibitorHandlersOf(controller: Target): readonly (string | symbol)[] {
  return reflector.get<(string | symbol)[] | undefined>(EXHIBITOR_HANDLERS, controller) ?? [];
}

/** Finds the event for `@CurrentEvent()` behind a guard that needs none. */
export const FIND_EVENT = Symbol('nestjs-exhibitor.find-event');

/**
 * What guards have found, or a guard of the host has set. Whether a member is there counts:
 *
 * | a member                  | its decorator                                                                                       |
 * | ------------------------- | --------------------------------------------------------------------------------------------------- |
 * | is there                  | answers it                                                                                          |
 * | is there, and `undefined` | answers that: it was looked for, and the route may do without it                                    |
 * | is not there              | looks on, `@CurrentEvent()` by `FIND_EVENT`, `@CurrentExhibitor()` among `exhibitors`; else refuses |
 *
 * The symbol is on no copy by JSON or `structuredClone`.
 */
export type Results = Partial<ExhibitorContext> & { [FIND_EVENT]?: () => Promise<string | undefined> };

/** Results of guards in GraphQL, by the `info` of the field: fields of one request run in parallel, and may be about different events. */
const resultsByField = new WeakMap<object, Results>();

/** The same results, to tell them from what a guard of the host has set as `request.exhibitorContext`, which is for all fields. */
const setByOurGuards = new WeakSet<object>();

/** Keeps what a guard has found: on the request, and for its field of GraphQL. */
export function keepResults({ context, request }: HttpContext, found: Results): void {
  request.exhibitors = found.exhibitors;
  request.exhibitorContext = found;
  const field = graphqlFieldOf(context);
  if (field !== undefined) {
    resultsByField.set(field, found);
    setByOurGuards.add(found);
  }
}

/** What the guards of this handler have found, or what a guard of the host has set on the request. */
export function resultsIn(context: ExecutionContext, request: ExhibitorRequest): Results | undefined {
  const { exhibitorContext } = request;
  const field = graphqlFieldOf(context);
  if (field === undefined) {
    return exhibitorContext;
  }
  const ofField = resultsByField.get(field);
  if (ofField !== undefined) {
    return ofField;
  }
  const isOfOtherField = exhibitorContext !== undefined && setByOurGuards.has(exhibitorContext);
  return isOfOtherField ? undefined : exhibitorContext;
}

/** The `info` of the field; `undefined` over HTTP. */
function graphqlFieldOf(context: ExecutionContext): object | undefined {
  return context.getType<string>() === 'graphql' ? context.getArgByIndex<object | undefined>(3) : undefined;
}
