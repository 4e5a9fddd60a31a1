import { Inject, Injectable, type ExecutionContext } from '@nestjs/common';
import { ConfigurationError } from '../errors/configuration.error.js';
import type { HttpContext } from '../http/http-context.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import type { ExhibitorSettings } from '../options/exhibitor-settings.js';
import { unnamedEvent } from '../problems/host-problems.js';
import { ProblemLog } from '../problems/problem-log.service.js';
import type { SessionState } from '../session/request-user.js';

/** Finds the event of a request. */
@Injectable()
export class RequestResolver {
  readonly #settings: ExhibitorSettings;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(ProblemLog) private readonly log: ProblemLog,
  ) {
    this.#settings = settings;
  }

  /**
   * The event that a request is about: with the option, that of `resolveEvent`; else the route parameter `eventId`, else the query; else
   * the event of the login. Where the handler may read it elsewhere, the query and the login do not count: the guard would decide about
   * another event.
   *
   * @param session `undefined` where nobody is logged in
   */
  async eventId(
    http: HttpContext,
    context: ExecutionContext,
    session: SessionState | undefined,
  ): Promise<string | undefined> {
    const { params = {}, query = {} } = http.request;
    const isHttp = context.getType<string>() === 'http';
    const isOnlyInQuery = isHttp && Object.keys(params).every((name) => OTHER_PARAMETERS.includes(name));
    const ofLogin = isOnlyInQuery ? session?.identity.eventId : undefined;
    if (this.#settings.resolveEvent !== undefined) {
      return (await this.#ask('resolveEvent', http, context)) ?? ofLogin;
    }
    if (isOnlyInQuery) {
      return textOf(query['eventId']) ?? ofLogin;
    }
    if (isHttp && 'eventId' in params) {
      return textOf(params['eventId']);
    }
    if (session !== undefined) {
      this.log.report(session.tenant, unnamedEvent(context.getClass().name, context.getHandler().name));
    }
    return undefined;
  }

  /** What a function of the host answers. Ids from a database are often numbers, and other objects would be read as `[object Object]`. */
  async #ask(
    option: 'resolveEvent',
    { request }: HttpContext,
    context: ExecutionContext,
  ): Promise<string | undefined> {
    const answer: unknown = await this.#settings[option]?.(request, context);
    if (answer === undefined || answer === null) {
      return undefined;
    }
    if (typeof answer === 'string') {
      return answer;
    }
    const expected = `must answer a string or undefined, not ${typeof answer}`;
    throw new ConfigurationError([{ path: option, expected }]);
  }
}

/** Parameters of a route that name no event. */
const OTHER_PARAMETERS = ['tenant', 'exhibitorId'];

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}
