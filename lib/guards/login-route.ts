import type { ExecutionContext } from '@nestjs/common';
import { isExhibitorError } from '../errors/exhibitor.error.js';
import type { HttpContext } from '../http/http-context.js';
import type { ExhibitorRequest } from '../model/exhibitor-request.interface.js';
import { requestPairOf } from './execution-request.js';
import type { RequestResolver } from './request-resolver.service.js';
import { retryAfterOf, toHttpException } from './to-http-exception.js';

/** What login, callback and logout have in common: no cache, no referrer, and failures as replies. */
export abstract class LoginRoute {
  constructor(protected readonly resolver: RequestResolver) {}

  async canActivate(context: ExecutionContext): Promise<boolean> {
    const http = this.resolver.httpOf({
      request: this.getRequest(context),
      response: this.getResponse(context),
    });
    http.setHeader('Cache-Control', 'no-store');
    // The address of a callback holds the code.
    http.setHeader('Referrer-Policy', 'no-referrer');
    try {
      return await this.handle(http, context);
    } catch (error) {
      if (!isExhibitorError(error)) {
        throw error;
      }
      const retryAfter = retryAfterOf(error);
      if (retryAfter !== undefined) {
        http.setHeader('Retry-After', retryAfter);
      }
      throw toHttpException(error);
    }
  }

  protected abstract handle(http: HttpContext, context: ExecutionContext): Promise<boolean>;

  protected getRequest(context: ExecutionContext): ExhibitorRequest {
    return requestPairOf(context).request;
  }

  protected getResponse(context: ExecutionContext): unknown {
    return requestPairOf(context).response;
  }
}
