import type { IncomingMessage } from 'node:http';
import { Inject, Injectable } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { ConfigurationError } from '../errors/configuration.error.js';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { isCrossSiteRequest } from '../browser/fetch-metadata.js';
import { HttpContext } from '../browser/http-context.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import type { ExhibitorRequest } from '../model/exhibitor-request.interface.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../config/check-options.js';
import type { ExhibitorSettings } from '../config/exhibitor-settings.js';
import { EndedLogins } from './ended-logins.service.js';
import { IdentityReader } from './identity-reader.service.js';
import { hostUserOf } from './request-user.js';
import { TenantRegistry } from '../config/tenant-registry.service.js';
import { loginOf } from '../config/tenant.js';
import { Clock } from '../call/clock.js';

/** One login, by the id of its identity; or every login of a user so far. */
export type LoginsToEnd = { id: string } | { tenant: string; subject: string };

/** Ends logins by code, and says who a request is where no guard runs. */
@Injectable()
export class ExhibitorLogins {
  readonly #settings: ExhibitorSettings;

  /** @internal */
  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(TenantRegistry) private readonly tenants: TenantRegistry,
    @Inject(EndedLogins) private readonly ended: EndedLogins,
    @Inject(IdentityReader) private readonly reader: IdentityReader,
    @Inject(Clock) private readonly clock: Clock,
    @Inject(HttpAdapterHost) private readonly adapterHost: HttpAdapterHost,
  ) {
    this.#settings = settings;
  }

  /**
   * Ends logins of a stolen account, or of a user who lost the right to log in: one by the `id` of its identity, or all logins of a user
   * at this tenant that began until now, by the clock of this host (their start is by that of the provider). The user can log in again:
   * `login.authorize` decides about that. A `subject` is looked for only with `logoutCheck: { provider: true }`. With `store` in all
   * processes, else in this one. Bearer tokens are not affected.
   *
   * @example
   * await this.logins.end({ tenant: 'acme', subject: user.subject });
   *
   * @throws {ExhibitorError} `invalid_argument` without an id, or a subject; `unknown_tenant`; `configuration_invalid` for a subject
   * without `logoutCheck.provider`, or of a tenant without `login`; `service_unavailable` where the `store` did not take the end of a
   * user's logins, which then holds in this process only: call again
   */
  async end(logins: LoginsToEnd): Promise<void> {
    if ('id' in logins) {
      await this.ended.ends.end(requireText('id', logins.id));
      return;
    }
    const subject = requireText('subject', logins.subject);
    if (!this.#settings.logoutCheck.provider) {
      throw new ConfigurationError([
        { path: 'logoutCheck.provider', expected: 'must be true to end the logins of a subject' },
      ]);
    }
    const tenant = await this.tenants.get(logins.tenant);
    loginOf(tenant);
    const { key, registration } = tenant;
    const at = this.clock.epochMs();
    if (!(await this.ended.logouts.record({ registration, tenant: key, subject, at }))) {
      throw new ExhibitorError('service_unavailable', 'the store did not take the end of these logins', {
        tenant: tenant.key,
      });
    }
  }

  /**
   * Who a request is, outside of guards: the handshake of a WebSocket, a middleware. By cookie, `request.user` or bearer token, as
   * `session` says; `undefined` for nobody, also where a bearer token is refused. A handshake (with the header `Upgrade`) is nobody's
   * where its `Origin` is neither that of `redirectUri` (without it, the host of the request) nor one of `trustedOrigins`: browsers send
   * cookies with handshakes of any page. The answer holds for now: ask again where a connection lasts. Sets no cookie, so that the
   * identity is not renewed, and not `request.user`.
   *
   * @param options `tenant`: key of the tenant; required with several
   * @throws {ExhibitorError} `tenant_required`, `unknown_tenant`; `service_unavailable`, `rate_limited` or `deadline_exceeded` where what
   * it needs is slow or down: the tenant source, and for a new bearer token keys, userinfo and `authorize`
   * @example
   * handleConnection(client: WebSocket, request: IncomingMessage) { const identity = await this.logins.identify(request); … }
   */
  async identify(
    request: ExhibitorRequest | IncomingMessage,
    options: { tenant?: string } = {},
  ): Promise<ExhibitorIdentity | undefined> {
    const { key, login } = await this.tenants.resolve(options.tenant);
    const http = new HttpContext(readOnly(request), undefined, this.adapterHost.httpAdapter);
    // HTTP/2 names the protocol in place of `Upgrade` (RFC 8441 §4).
    const isHandshake = (http.header('upgrade') ?? http.header(':protocol')) !== undefined;
    if (isHandshake && isCrossSiteRequest(http, login?.redirectUri, this.#settings.trustedOrigins)) {
      return undefined;
    }
    try {
      return (await this.reader.read(http, key))?.identity;
    } catch (error) {
      if (isExhibitorError(error) && error.code === 'login_failed') {
        return undefined;
      }
      throw error;
    }
  }
}

/**
 * The members that tell who a request is. A copy: where a user of the host does not count, `IdentityReader` removes it from the request.
 * The copy does not have what tells users of guards from those of the host, so that the user is looked for before.
 */
function readOnly(request: ExhibitorRequest | IncomingMessage): ExhibitorRequest {
  const { method = 'GET', url = '/', headers } = request;
  const user = 'user' in request ? hostUserOf({ request }) : undefined;
  return { method, url, headers, user, params: {}, query: {} };
}

/**
 * An id, or a subject. No id begins with `[`: names of users and sessions do, unless they are long (`logout-names`), and ended as an id,
 * such a name would lose the time of its logout.
 */
function requireText(name: string, value: unknown): string {
  if (typeof value === 'string' && value !== '' && !(name === 'id' && value.startsWith('['))) {
    return value;
  }
  throw new ExhibitorError('invalid_argument', `${name}: must be that of an identity`);
}
