import {
  Catch,
  Inject,
  Optional,
  type ArgumentsHost,
  type HttpException,
  type HttpServer,
} from '@nestjs/common';
import { BaseExceptionFilter } from '@nestjs/core';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { ExhibitorGuardServices } from './exhibitor-guard-services.js';
import { retryAfterOf, toHttpException } from './to-http-exception.js';

/**
 * Answers each {@link ExhibitorError} that a controller throws with its status and `code`. Bind it with
 * `@UseFilters(ExhibitorExceptionFilter)` or as `APP_FILTER`. The guards do not need it.
 *
 * @example
 * providers: [{ provide: APP_FILTER, useClass: ExhibitorExceptionFilter }]
 */
@Catch(ExhibitorError)
export class ExhibitorExceptionFilter extends BaseExceptionFilter<ExhibitorError | HttpException> {
  /** @param services injected by Nest; or, for `useGlobalFilters(new …)`, the HTTP adapter of the application */
  constructor(@Optional() @Inject(ExhibitorGuardServices) services?: ExhibitorGuardServices | HttpServer) {
    super(services instanceof ExhibitorGuardServices ? services.adapter : services);
  }

  override catch(error: ExhibitorError, host: ArgumentsHost): unknown {
    const exception = toHttpException(error);
    // The error of a resolver is part of the GraphQL result and not sent by this filter.
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
