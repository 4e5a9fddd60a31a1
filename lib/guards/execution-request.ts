import type { ExecutionContext } from '@nestjs/common';
import type { ExhibitorRequest } from '../model/exhibitor-request.interface.js';

/** Request and response of an execution context. */
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
 */
export function requestPairOf(context: ExecutionContext, user: string): RequestPair {
  const type = context.getType<string>();
  if (type === 'http') {
    const http = context.switchToHttp();
    return { request: http.getRequest<ExhibitorRequest>(), response: http.getResponse<unknown>() };
  }
  if (type !== 'graphql') {
    throw new Error(`${user} serves HTTP and GraphQL, not '${type}'`);
  }
  const shared = context.getArgByIndex<GraphqlContext>(2);
  const request = shared.req ?? shared.request ?? shared.reply?.request;
  if (request === undefined) {
    throw new Error('the GraphQL context has no request: return { req, res } from the context option');
  }
  // By default, Nest's Apollo driver passes only the request. Express sets the response on it.
  return { request, response: shared.res ?? shared.reply ?? shared.response ?? request.res };
}
