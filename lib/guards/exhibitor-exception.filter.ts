import { Catch, type ArgumentsHost, type HttpException } from '@nestjs/common';
import { BaseExceptionFilter } from '@nestjs/core';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { retryAfterOf, toHttpException } from './to-http-exception.js';

/**
 * Answers the {@link ExhibitorError}s that a controller lets through with their status and `code`. Bind it with
 * `@UseFilters(ExhibitorExceptionFilter)` or as `APP_FILTER`; the guards need it not.
 *
 * @example
 * providers: [{ provide: APP_FILTER, useClass: ExhibitorExceptionFilter }]
 */
@Catch(ExhibitorError)
export class ExhibitorExceptionFilter extends BaseExceptionFilter<ExhibitorError | HttpException> {
  override catch(error: ExhibitorError, host: ArgumentsHost): unknown {
    const exception = toHttpException(error);
    // A resolver's error goes back into the GraphQL result, not to a response.
    if (host.getType() !== 'http') {
      return exception;
    }
    const adapter = this.applicationRef ?? this.httpAdapterHost?.httpAdapter;
    const response: unknown = host.switchToHttp().getResponse();
    const retryAfter = retryAfterOf(error);
    if (retryAfter !== undefined && adapter?.isHeadersSent(response) === false) {
      adapter.setHeader(response, 'Retry-After', retryAfter);
    }
    return super.catch(exception, host);
  }
}
