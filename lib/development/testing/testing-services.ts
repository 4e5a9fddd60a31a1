/** What an {@link ExhibitorTestingModule} replaces in the module. All else is the module itself. */
import { randomUUID } from 'node:crypto';
import { RequestMethod, type Type } from '@nestjs/common';
import type { ModuleRef } from '@nestjs/core';
import {
  ConfigurationError,
  ExhibitorsService,
  LoginFailedError,
  TenantRegistry,
  TokenService,
  type Tenant,
} from '../../index.js';
import { Clock } from '../../call/clock.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../../config/check-options.js';
import { hasBrowser } from '../../config/option-rules.js';
import { Transport } from '../../http/transport.service.js';
import { CallbackVerifier } from '../../login/callback-verifier.service.js';
import { EndedLogins } from '../../login/ended-logins.service.js';
import type { FoundIdentity } from '../../login/identity.js';
import { IdentityReader } from '../../login/identity-reader.service.js';
import { LoginService } from '../../login/login.service.js';
import { LogoutService } from '../../login/logout.service.js';
import { SelectionCookie } from '../../login/selection-cookie.service.js';
import { RouteAddresses } from '../../nest/route-addresses.js';
import { pageOf } from '../sandbox/rest-api.js';
import { parseRoute } from '../sandbox/server/operations.js';
import type { ExhibitorTestingBackend } from './testing-backend.js';
import { watchedExhibitors, watchedTokens } from './watched-calls.js';

/** The date alone is the time, so that one fake moves all: fakes of `performance.now()` start at 0, an earlier time than before. */
class DateClock extends Clock {
  override now(): number {
    return this.epochMs() + 1;
  }
}

/** Answers requests from memory. Nothing is sent. */
function transportTo(backend: ExhibitorTestingBackend): Type<Transport> {
  const bodyOf = (operation: string, { pathname, searchParams }: URL): unknown => {
    const { eventId = '', contactEmail = '' } = parseRoute(pathname);
    switch (operation) {
      case 'token':
        return { access_token: 'test-token', token_type: 'Bearer', scope: 'idp_api', expires_in: 3_600 };
      case 'lookup':
        return backend.exhibitorsOf(eventId, contactEmail);
      case 'list': {
        const event = backend.exhibitorsOf(eventId);
        return (
          event && pageOf(event, Number(searchParams.get('Page')), Number(searchParams.get('ItemsPerPage')))
        );
      }
      default:
        return undefined;
    }
  };
  return class extends Transport {
    override async send(...[tenant, { operation, url }, call]: Parameters<Transport['send']>) {
      if (operation === 'lookup') {
        // A failure of the service, for which an old answer may serve.
        call.partner.failed();
        backend.failIfDue({ method: operation, tenant: tenant.key });
        call.partner.answered();
      }
      // A 404 is about the event: the log need not warn of the base URL.
      tenant.stateKey.hasAnswered = true;
      // A copy, since a caller may change what it gets. A `Date` of an `exhibitorSchema` stays one.
      const body = structuredClone(bodyOf(operation, new URL(url)));
      return { status: body === undefined ? 404 : 200, body, sentAt: Date.now() };
    }

    override dispatcherOf(): undefined {}
  };
}

/** The tenant of a call that names none is that of the test, unless the application has several. */
function tenantsOf(backend: ExhibitorTestingBackend): Type<TenantRegistry> {
  return class extends TenantRegistry {
    override get onlyKey(): string | undefined {
      return backend.tenant;
    }
  };
}

/** A login starts wherever a test sends its request, and the routes are where the router has them. */
class TestAddresses extends RouteAddresses {
  override elsewhere(): undefined {}

  override callbackInBrowser({ key }: Tenant): readonly string[] {
    const parts = this.callbackInRouter(RequestMethod.GET).split('/').filter(Boolean);
    // The only parameter that a path of these routes has is the tenant.
    return parts.map((part) => (part.startsWith(':') ? encodeURIComponent(key) : part));
  }
}

/** The user of each request is that of the backend, without a cookie. A selection is refused to users with a bearer token. */
function readerOf(backend: ExhibitorTestingBackend, module: ModuleRef): Type<IdentityReader> {
  const { session } = module.get<CheckedOptions>(CHECKED_OPTIONS).settings;
  const mode = hasBrowser(session) ? 'cookie' : 'bearer';
  return class extends IdentityReader {
    override async read(...[, tenantKey]: Parameters<IdentityReader['read']>) {
      if (!backend.hasUser) {
        return undefined;
      }
      const tenant = await module.get(TenantRegistry).resolve(backend.tenantOf(tenantKey));
      const identity = backend.identityAt(tenant);
      if (identity === undefined || identity.expiresAt <= module.get(Clock).epochMs()) {
        return undefined;
      }
      const hasEnded = await module.get(EndedLogins).has(identity, tenant.registration);
      return hasEnded ? undefined : ({ identity, tenant, mode } as const);
    }
  };
}

/** What was to be verified is who logs in: the user of the backend. A response with an error is judged as in production. */
function verifierOf(backend: ExhibitorTestingBackend): Type<CallbackVerifier> {
  return class extends CallbackVerifier {
    /** Path, method and response type are those of the request: the test has no options that name others. */
    override misfitOf(...given: Parameters<CallbackVerifier['misfitOf']>) {
      const [{ code, error }] = given;
      return code === undefined && error === undefined ? super.misfitOf(...given) : undefined;
    }

    override async verify(...given: Parameters<CallbackVerifier['verify']>) {
      const [tenant, { eventId, returnTo }, { error }] = given;
      if (error !== undefined) {
        return super.verify(...given);
      }
      const user = backend.identityAt(tenant);
      if (user === undefined) {
        const message = 'nobody is logged in at this ExhibitorTestingModule: signIn says who logs in';
        throw new LoginFailedError('denied', message, { tenant: tenant.key });
      }
      const login = {
        id: randomUUID(),
        eventId: eventId ?? user.eventId,
        returnTo: returnTo ?? user.returnTo,
      };
      return { identity: { ...user, ...login }, idToken: '' };
    }
  };
}

/** The backend keeps the user, beside what the module and the host keep. */
function loginOf(backend: ExhibitorTestingBackend): Type<LoginService> {
  return class extends LoginService {
    override async finish(...[http, route]: Parameters<LoginService['finish']>) {
      const found = await super.finish(http, {
        ...route,
        storeIdentity: (identity) => unlessWithoutPassport(() => route.storeIdentity(identity)),
      });
      backend.loggedIn(found.identity);
      return found;
    }
  };
}

function logoutOf(backend: ExhibitorTestingBackend): Type<LogoutService> {
  return class extends LogoutService {
    override async end(...[http, remove]: Parameters<LogoutService['end']>) {
      const url = await super.end(http, () => unlessWithoutPassport(remove));
      backend.signOut();
      return url;
    }

    override async takeBack(...given: Parameters<LogoutService['takeBack']>) {
      await super.takeBack(...given);
      backend.signOut();
    }
  };
}

/** The middleware of Passport belongs to the start of an application, which tests of its modules leave out. */
async function unlessWithoutPassport(keepOrRemove: () => void | Promise<void>): Promise<void> {
  try {
    await keepOrRemove();
  } catch (error) {
    if (!(error instanceof ConfigurationError)) {
      throw error;
    }
  }
}

/** Selections are kept by the backend, so that requests of a test need no cookies. The cookie refuses what it refuses in production. */
function selectionsOf({ selections: kept }: ExhibitorTestingBackend): Type<SelectionCookie> {
  const keyOf = ({ tenant }: FoundIdentity, eventId: string): string => JSON.stringify([tenant.key, eventId]);
  return class extends SelectionCookie {
    override read(...[, found, eventId]: Parameters<SelectionCookie['read']>) {
      const chosen = kept.get(keyOf(found, eventId));
      return chosen === undefined ? undefined : (id: string) => id === chosen;
    }

    override write(...[http, found, eventId, id]: Parameters<SelectionCookie['write']>) {
      super.write(http, found, eventId, id);
      const key = keyOf(found, eventId);
      void (id === undefined ? kept.delete(key) : kept.set(key, id));
    }
  };
}

/** A class in place of one of the module. */
export type StandIn = (backend: ExhibitorTestingBackend, module: ModuleRef) => Type;

/** The classes of the module that tests replace. Nest injects into each what the original one has. */
export const STAND_INS: ReadonlyMap<Type, StandIn> = new Map<Type, StandIn>([
  [Clock, () => DateClock],
  [Transport, transportTo],
  [TenantRegistry, tenantsOf],
  [IdentityReader, readerOf],
  [LoginService, loginOf],
  [LogoutService, logoutOf],
  [CallbackVerifier, verifierOf],
  [RouteAddresses, () => TestAddresses],
  [SelectionCookie, selectionsOf],
  [TokenService, watchedTokens],
  [ExhibitorsService, watchedExhibitors],
]);
