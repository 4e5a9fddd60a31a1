import type { ExecutionContext } from '@nestjs/common';
import type { ExhibitorRequest } from '../model/exhibitor-request.interface.js';

/** Request and response of a context: HTTP, or GraphQL, whose context holds them as Apollo or Mercurius name them. */
export interface RequestPair {
  request: ExhibitorRequest;
  response: unknown;
}

/** The request of an execution context. */
export function requestPairOf(context: ExecutionContext): RequestPair {
  if (context.getType<string>() !== 'graphql') {
    const http = context.switchToHttp();
    return { request: http.getRequest<ExhibitorRequest>(), response: http.getResponse<unknown>() };
  }
  const shared = context.getArgByIndex<GraphqlContext>(2);
  const request = shared.req ?? shared.request ?? shared.reply?.request;
  if (request === undefined) {
    throw new Error('the GraphQL context holds no request: return { req, res } from the context option');
  }
  // Nest's Apollo driver hands on the request alone by default; Express keeps the response on it.
  return { request, response: shared.res ?? shared.reply ?? shared.response ?? request.res };
}

interface GraphqlContext {
  req?: ExhibitorRequest & { res?: unknown };
  request?: ExhibitorRequest & { res?: unknown };
  res?: unknown;
  response?: unknown;
  reply?: { request?: ExhibitorRequest & { res?: unknown } };
}
