import { Inject, Injectable, Optional, type CanActivate, type ExecutionContext } from '@nestjs/common';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import type { HttpContext } from '../http/http-context.js';
import type { ExhibitorRequest } from '../model/exhibitor-request.interface.js';
import { runSteps, settled, type MaybePromise, type Steps } from '../time/steps.js';
import { requestPairOf } from './execution-request.js';
import { ExhibitorGuardServices, requireServices } from './exhibitor-guard-services.js';
import { retryAfterOf, toHttpException } from './to-http-exception.js';

// Symbols, so that a member of a host's subclass never replaces one of these by accident: without its run() a guard would
// let every request pass.
/** Key of the services of a guard. @internal */
export const SERVICES = Symbol('services');
/** Key of the method that sets the headers of every reply of the route. @internal */
export const SET_HEADERS = Symbol('setHeaders');
const STEPS = Symbol('steps');
/** Key of the method that runs the steps of a guard. @internal */
export const RUN = Symbol('run');

/** Common steps of all guards. Every step may be overridden and may answer a promise. */
@Injectable()
export abstract class RouteGuard implements CanActivate {
  /** @internal */
  protected readonly [SERVICES]: ExhibitorGuardServices;

  constructor(@Optional() @Inject(ExhibitorGuardServices) services?: ExhibitorGuardServices) {
    this[SERVICES] = requireServices(services, new.target.name);
  }

  /** Answers no promise where no step does, so that a request whose answers are in memory is not delayed. */
  canActivate(context: ExecutionContext): boolean | Promise<boolean> {
    return runSteps(this[STEPS](context));
  }

  /** @internal */
  protected *[STEPS](context: ExecutionContext): Steps<boolean> {
    const request = yield* settled(this.getRequest(context));
    const response = this.getResponse(context);
    // Fastify's reply is thenable: to await it would wait until it is sent.
    const http = this[SERVICES].httpOf({
      request,
      response: response instanceof Promise ? yield* settled<unknown>(response) : response,
    });
    this[SET_HEADERS](http);
    try {
      yield* settled(this[RUN](http, context));
      return true;
    } catch (error) {
      return yield* settled(this.onFailure(error, http));
    }
  }

  /** The request of Nest's context, HTTP or GraphQL. */
  protected getRequest(context: ExecutionContext): ExhibitorRequest | Promise<ExhibitorRequest> {
    return requestPairOf(context, this.constructor.name).request;
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
  protected abstract [SET_HEADERS](http: HttpContext): void;

  /** @internal */
  protected abstract [RUN](http: HttpContext, context: ExecutionContext): MaybePromise<void>;
}

/** Headers of the login routes: no cache, and no referrer, since the address of a callback contains the code. */
export function setLoginHeaders(http: HttpContext): void {
  http.setHeader('Cache-Control', 'no-store');
  http.setHeader('Referrer-Policy', 'no-referrer');
}
