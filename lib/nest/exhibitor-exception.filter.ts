import { Catch, Inject, Logger, Optional, type ArgumentsHost, type HttpException } from '@nestjs/common';
import { BaseExceptionFilter } from '@nestjs/core';
import { throwError } from 'rxjs';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import type { ExhibitorRequest } from '../model/exhibitor-request.interface.js';
import { ExhibitorGuardServices, requireServices } from './guard-services.js';

/** Nest selects a filter by `instanceof`, which is true here for the errors of every copy of this package. */
abstract class ErrorOfAnyCopy extends ExhibitorError {
  static override [Symbol.hasInstance](error: unknown): boolean {
    return isExhibitorError(error);
  }
}

/**
 * Answers each {@link ExhibitorError} that a handler throws: over HTTP with its status and `code`, in GraphQL by an error of the
 * result, in a microservice as Nest answers unknown errors. The module binds it for the whole application, after the filters of the
 * host, unless `bindFilter: false` is set. It is not for gateways of WebSockets, whose clients would hear of no error.
 *
 * @example
 * @Controller() @UseFilters(ExhibitorExceptionFilter)
 * class BoothController { … }
 */
@Catch(ErrorOfAnyCopy)
export class ExhibitorExceptionFilter extends BaseExceptionFilter<ExhibitorError | HttpException> {
  readonly #services: ExhibitorGuardServices;
  readonly #logger = new Logger('ExhibitorExceptionFilter');

  constructor(@Optional() @Inject(ExhibitorGuardServices) services?: ExhibitorGuardServices) {
    const given = requireServices(services, 'ExhibitorExceptionFilter');
    super(given.adapter);
    this.#services = given;
  }

  /** Answers the error; called by Nest. */
  override catch(error: ExhibitorError, host: ArgumentsHost): unknown {
    const type = host.getType<string>();
    if (type === 'http') {
      const route = host.switchToHttp();
      const http = this.#services.httpOf(route.getRequest<ExhibitorRequest>(), route.getResponse<unknown>());
      return super.catch(this.#services.exceptionFor(error, http), host);
    }
    if (type === 'graphql') {
      // Nest adds a returned error to the result.
      return this.#services.exceptionFor(error);
    }
    if (type === 'rpc' || type === 'ws') {
      // If it were thrown, the client of a microservice would get no reply.
      this.#logger.error(error);
      return throwError(() => ({ status: 'error', message: 'Internal server error' }));
    }
    throw error;
  }
}
