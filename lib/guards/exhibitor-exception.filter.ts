import { Catch, Inject, Optional, type ArgumentsHost, type HttpException } from '@nestjs/common';
import { BaseExceptionFilter } from '@nestjs/core';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import type { ExhibitorRequest } from '../model/exhibitor-request.interface.js';
import { ExhibitorGuardServices, requireServices } from './route-guard.js';

/** Nest selects a filter by `instanceof`, which is true here for the errors of every copy of this package. */
abstract class ErrorOfAnyCopy extends ExhibitorError {
  static override [Symbol.hasInstance](error: unknown): boolean {
    return isExhibitorError(error);
  }
}

/**
 * Answers each {@link ExhibitorError} that a handler throws: over HTTP with its status and `code`, in GraphQL by an error of the
 * result. The module binds it for the whole application, after the filters of the host, unless `bindFilter: false` is set.
 *
 * @example
 * @Controller() @UseFilters(ExhibitorExceptionFilter)
 * class BoothController { … }
 */
@Catch(ErrorOfAnyCopy)
export class ExhibitorExceptionFilter extends BaseExceptionFilter<ExhibitorError | HttpException> {
  readonly #services: ExhibitorGuardServices;

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
    const exception = this.#services.exceptionFor(error);
    if (type === 'graphql') {
      // Nest adds a returned error to the result.
      return exception;
    }
    throw error;
  }
}
