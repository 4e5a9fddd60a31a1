import { Inject, Injectable, type ExecutionContext } from '@nestjs/common';
import { HttpAdapterHost, type AbstractHttpAdapter } from '@nestjs/core';
import { HttpContext } from '../http/http-context.js';
import { LoginService } from '../login/login.service.js';
import { LogoutService } from '../login/logout.service.js';
import { ProblemLog } from '../problems/problem-log.service.js';
import { IdentityReader } from '../session/identity-reader.service.js';
import { SelectionCookie } from '../session/selection-cookie.service.js';
import type { RequestPair } from './execution-context.js';
import { RequestResolver } from './request-resolver.service.js';

export interface GuardServices {
  readonly resolver: RequestResolver;
  readonly reader: Pick<IdentityReader, 'acceptsBearer' | 'read'>;
  readonly selections: SelectionCookie;
  readonly login: Pick<LoginService, 'start' | 'finish'>;
  readonly logout: Pick<LogoutService, 'end' | 'hearsProvider' | 'receive'>;
  readonly log: ProblemLog;
}

/**
 * The services of {@link ExhibitorModule} that guards, filter and selection need. Opaque: a subclass of a guard only passes it
 * on to `super`.
 *
 * @example
 * constructor(
 *   @Optional() @Inject(ExhibitorGuardServices) services: ExhibitorGuardServices,
 *   @Inject(AuditLog) private readonly audit: AuditLog,
 * ) {
 *   super(services);
 * }
 */
@Injectable()
export class ExhibitorGuardServices {
  readonly #all: GuardServices;

  /** @internal */
  constructor(
    @Inject(HttpAdapterHost) private readonly adapterHost: HttpAdapterHost,
    @Inject(RequestResolver) resolver: RequestResolver,
    @Inject(IdentityReader) reader: GuardServices['reader'],
    @Inject(SelectionCookie) selections: SelectionCookie,
    @Inject(LoginService) login: GuardServices['login'],
    @Inject(LogoutService) logout: GuardServices['logout'],
    @Inject(ProblemLog) log: ProblemLog,
  ) {
    this.#all = { resolver, reader, selections, login, logout, log };
  }

  /** @internal */
  get all(): GuardServices {
    return this.#all;
  }

  /** @internal */
  get adapter(): AbstractHttpAdapter {
    return this.adapterHost.httpAdapter;
  }

  /** @internal */
  httpOf({ request, response }: RequestPair, context?: ExecutionContext): HttpContext {
    return new HttpContext(request, response, this.adapter, context);
  }
}

/** The services, where the module of the controller can inject them. @internal */
export function requireServices(
  services: ExhibitorGuardServices | undefined,
  user: string,
): ExhibitorGuardServices {
  if (services !== undefined) {
    return services;
  }
  throw new Error(
    `${user} cannot find its services: import ExhibitorModule in the module of the controller, or once in the root module with ` +
      'isGlobal: true. Where it is imported, the constructor was called without them: write super(services) in a subclass, and ' +
      `new ${user}(app.get(ExhibitorGuardServices)) for a guard made by hand`,
  );
}
