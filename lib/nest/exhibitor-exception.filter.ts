import { Catch, HttpException, Inject, Logger, Optional, type ArgumentsHost } from '@nestjs/common';
import { BaseExceptionFilter } from '@nestjs/core';
import { throwError } from 'rxjs';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import type { HttpContext } from '../browser/http-context.js';
import type { ExhibitorRequest } from '../model/exhibitor-request.interface.js';
import { ExhibitorGuardServices, requireServices } from './guard-services.js';
import { isRefusal, placeOf } from './refusals.js';

/** Logs what Nest would answer with 500 under the name that Nest uses for it. */
const NEST_LOGGER = new Logger('ExceptionsHandler');

/** Nest selects a filter by `instanceof`: true for the errors of every copy of this package, and for what its guards have thrown. */
abstract class ErrorOrRefusal extends ExhibitorError {
  static override [Symbol.hasInstance](error: unknown): boolean {
    return isExhibitorError(error) || isRefusal(error);
  }
}

/**
 * Answers each {@link ExhibitorError} that a handler throws: over HTTP with its status and `code`, in GraphQL by an error of the
 * result, in a microservice as Nest answers unknown errors. With `routes`, people get a page in place of JSON, also for what guards and
 * decorators throw. The module binds it for the whole application, after the filters of the host, unless `bindFilter: false` is set. A
 * catch-all filter of the host hands over to it. It is not for gateways of WebSockets, whose clients would hear of no error.
 *
 * @example
 * if (isExhibitorError(error) || isExhibitorError(error?.cause)) return this.exhibitorFilter.catch(error, host);
 *
 * @example
 * @Controller() @UseFilters(ExhibitorExceptionFilter)
 * class BoothController { … }
 */
@Catch(ErrorOrRefusal)
export class ExhibitorExceptionFilter extends BaseExceptionFilter<unknown> {
  readonly #services: ExhibitorGuardServices;
  readonly #logger = new Logger('ExhibitorExceptionFilter');

  constructor(@Optional() @Inject(ExhibitorGuardServices) services?: ExhibitorGuardServices) {
    const given = requireServices(services, 'ExhibitorExceptionFilter');
    super(given.adapter);
    this.#services = given;
  }

  /** Answers the error; called by Nest, or by a filter of the host. */
  override catch(error: unknown, host: ArgumentsHost): unknown {
    const type = host.getType<string>();
    if (type === 'http') {
      return this.#answer(error, host);
    }
    if (type === 'graphql') {
      // Nest adds a returned error to the result.
      return isExhibitorError(error) ? this.#services.exceptionFor(error) : error;
    }
    if (type === 'rpc' || type === 'ws') {
      // If it were thrown, the client of a microservice would get no reply.
      this.#logger.error(error);
      return throwError(() => ({ status: 'error', message: 'Internal server error' }));
    }
    throw error;
  }

  #answer(error: unknown, host: ArgumentsHost): void | Promise<void> {
    const route = host.switchToHttp();
    const { pages } = this.#services;
    const http = this.#services.httpOf(route.getRequest<ExhibitorRequest>(), route.getResponse<unknown>());
    const thrown = isExhibitorError(error) ? this.#services.exceptionFor(error, http) : error;
    if (!pages.isFor(http) || !http.takesHeaders) {
      return super.catch(thrown, host);
    }
    if (!(thrown instanceof HttpException)) {
      NEST_LOGGER.error(thrown);
    }
    return this.#show(http, thrown, host);
  }

  /** Nest awaits no filter, so that this must not reject. */
  async #show(http: HttpContext, thrown: unknown, host: ArgumentsHost): Promise<void> {
    try {
      await this.#services.pages.refuse(http, thrown, placeOf(http.request));
    } catch {
      super.catch(thrown, host);
    }
  }
}
