import { Inject, Injectable, Optional, type CanActivate, type ExecutionContext } from '@nestjs/common';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import type { HttpContext } from '../http/http-context.js';
import type { ExhibitorRequest } from '../model/exhibitor-request.interface.js';
import { keepResults, requestPairOf, type GuardResults } from './execution-context.js';
import { ExhibitorGuardServices, requireServices, type GuardServices } from './exhibitor-guard-services.js';
import { retryAfterOf, toHttpException } from './to-http-exception.js';

// Symbols, so that a member of a host's subclass never replaces one of these by accident: without its run() a guard would
// let every request pass.
/** Key of the services of a guard. @internal */
export const SERVICES = Symbol('services');
/** Key of the headers of every reply of the route. @internal */
export const HEADERS = Symbol('headers');
/** Key of the method that decides on a request. @internal */
export const RUN = Symbol('run');

/** Headers of the login routes: no cache, and no referrer, since the address of a callback contains the code. */
export const LOGIN_HEADERS = { 'Cache-Control': 'no-store', 'Referrer-Policy': 'no-referrer' };

/** Common steps of all guards. Every step may be overridden and may answer a promise. */
@Injectable()
export abstract class RouteGuard implements CanActivate {
  readonly #services: ExhibitorGuardServices;

  constructor(@Optional() @Inject(ExhibitorGuardServices) services?: ExhibitorGuardServices) {
    this.#services = requireServices(services, new.target.name);
  }

  canActivate(context: ExecutionContext): boolean | Promise<boolean> {
    return this.#decide(context);
  }

  async #decide(context: ExecutionContext): Promise<boolean> {
    const request = await this.getRequest(context);
    const response = this.getResponse(context);
    const http = this.#services.httpOf({
      request,
      // Fastify's reply is thenable: to await it would wait until it is sent.
      response: response instanceof Promise ? await response : response,
    });
    for (const [name, value] of Object.entries(this[HEADERS])) {
      http.setHeader(name, value);
    }
    try {
      const found = await this[RUN](http, context);
      if (found !== undefined) {
        keepResults(context, request, found);
      }
      return true;
    } catch (error) {
      return await this.onFailure(error, http);
    }
  }

  /** The request of Nest's context, HTTP or GraphQL. */
  protected getRequest(context: ExecutionContext): ExhibitorRequest | Promise<ExhibitorRequest> {
    const advice = '. A handler with @AllowAnonymous() passes a global guard';
    return requestPairOf(context, this.constructor.name, advice).request;
  }

  /** The response of Nest's context. On Fastify it must not be returned from an async function: a reply is thenable. */
  protected getResponse(context: ExecutionContext): unknown {
    return requestPairOf(context, this.constructor.name).response;
  }

  /** Throws the reply for an {@link ExhibitorError}, by its code. Other errors are thrown as they are. */
  protected onFailure(error: unknown, http: HttpContext): never | Promise<never> {
    if (!isExhibitorError(error)) {
      throw error;
    }
    this[SERVICES].log.reportMistake(error);
    const retryAfter = retryAfterOf(error);
    if (retryAfter !== undefined) {
      http.setHeader('Retry-After', retryAfter);
    }
    throw toHttpException(error);
  }

  /** @internal */
  protected get [SERVICES](): GuardServices {
    return this.#services.all;
  }

  /** @internal */
  protected abstract readonly [HEADERS]: Readonly<Record<string, string>>;

  /** Lets the request pass, with what was found for its handler, or throws. @internal */
  protected abstract [RUN](http: HttpContext, context: ExecutionContext): Promise<GuardResults | void>;
}

/** What a guard awaits once it has answered the request: `true` would run the handler, `false` would answer 403. */
export function answered(): Promise<never> {
  return new Promise(() => undefined);
}
