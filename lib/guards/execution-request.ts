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

/** Request and response of an HTTP context, or of a GraphQL context of Apollo or Mercurius. */
export function requestPairOf(context: ExecutionContext): RequestPair {
  if (context.getType<string>() !== 'graphql') {
    const http = context.switchToHttp();
    return { request: http.getRequest<ExhibitorRequest>(), response: http.getResponse<unknown>() };
  }
  const shared = context.getArgByIndex<GraphqlContext>(2);
  const request = shared.req ?? shared.request ?? shared.reply?.request;
  if (request === undefined) {
    throw new Error('the GraphQL context has no request: return { req, res } from the context option');
  }
  // By default, Nest's Apollo driver passes only the request. Express sets the response on it.
  return { request, response: shared.res ?? shared.reply ?? shared.response ?? request.res };
}
