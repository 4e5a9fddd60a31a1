import { Inject, Injectable, Optional, type CanActivate, type ExecutionContext } from '@nestjs/common';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import type { HttpContext } from '../http/http-context.js';
import type { ExhibitorRequest } from '../model/exhibitor-request.interface.js';
import { requestPairOf } from './execution-context.js';
import { ExhibitorGuardServices, requireServices, type GuardServices } from './exhibitor-guard-services.js';
import { retryAfterOf, toHttpException } from './to-http-exception.js';

/** Headers of the login routes: no cache, and no referrer, since the address of a callback contains the code. */
export const LOGIN_HEADERS = { 'Cache-Control': 'no-store', 'Referrer-Policy': 'no-referrer' };

/** Common steps of all guards. Every step may be overridden and may answer a promise. */
@Injectable()
export abstract class RouteGuard implements CanActivate {
  readonly #services: ExhibitorGuardServices;

  constructor(@Optional() @Inject(ExhibitorGuardServices) services?: ExhibitorGuardServices) {
    this.#services = requireServices(services, new.target.name);
  }

  abstract canActivate(context: ExecutionContext): boolean | Promise<boolean>;

  // Static: a member of a host's subclass must not replace one of these by accident. Without its decision a guard would let every
  // request pass.
  /** @internal */
  static servicesOf(guard: RouteGuard): GuardServices {
    return guard.#services.all;
  }

  /**
   * Lets the request pass unless `decide` throws, which `onFailure` answers.
   *
   * @param headers of every reply of the route
   * @internal
   */
  static async run(
    guard: RouteGuard,
    context: ExecutionContext,
    headers: Readonly<Record<string, string>>,
    decide: (http: HttpContext) => Promise<void>,
  ): Promise<boolean> {
    const request = await guard.getRequest(context);
    const given = guard.getResponse(context);
    // Fastify's reply is thenable: to await it would wait until it is sent.
    const response = given instanceof Promise ? await given : given;
    const http = guard.#services.httpOf({ request, response }, context);
    for (const [name, value] of Object.entries(headers)) {
      http.setHeader(name, value);
    }
    try {
      await decide(http);
      return true;
    } catch (error) {
      return await guard.onFailure(error, http);
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
    this.#services.all.log.reportMistake(error);
    const retryAfter = retryAfterOf(error);
    if (retryAfter !== undefined) {
      http.setHeader('Retry-After', retryAfter);
    }
    throw toHttpException(error);
  }
}

/** What a guard awaits once it has answered the request: `true` would run the handler, `false` would answer 403. */
export function answered(): Promise<never> {
  return new Promise(() => undefined);
}
