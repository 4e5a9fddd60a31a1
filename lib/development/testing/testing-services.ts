import type { FactoryProvider } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { ExhibitorModule, LoginFailedError, TenantRegistry } from '../../index.js';
import { pageOf } from '../sandbox/rest-api.js';
import { parseRoute } from '../sandbox/server/operations.js';
import { ExhibitorTestingBackend } from './testing-backend.js';

const { transport, selections, reader, login, logout } = ExhibitorModule.forTests;

type Transport = InstanceType<typeof transport>;
type SelectionCookie = InstanceType<typeof selections>;
type FoundIdentity = Awaited<ReturnType<InstanceType<typeof reader>['read']>>;

/** Answers requests from memory. Nothing is sent. */
function transportTo(backend: ExhibitorTestingBackend): Pick<Transport, 'send' | 'dispatcherOf'> {
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
  return {
    send: async ({ stateKey }, { operation, url }) => {
      // A 404 is about the event: the log need not warn of the base URL.
      stateKey.hasAnswered = true;
      // A copy, since a caller may change what it gets. A `Date` of an `exhibitorSchema` stays one.
      const body = structuredClone(bodyOf(operation, new URL(url)));
      return { status: body === undefined ? 404 : 200, body, sentAt: performance.now() };
    },
    dispatcherOf: () => undefined,
  };
}

/** The selections of the backend, so that requests of a test need no cookies. */
function selectionsOf({
  selections: kept,
}: ExhibitorTestingBackend): Pick<SelectionCookie, 'read' | 'write'> {
  return {
    read: (_http, _session, eventId) => kept.get(eventId),
    write: (_http, _session, eventId, id) =>
      void (id === undefined ? kept.delete(eventId) : kept.set(eventId, id)),
  };
}

/** The user of a request: the one of the backend. */
async function userOf(
  backend: ExhibitorTestingBackend,
  tenants: TenantRegistry,
  tenantKey?: string,
): Promise<FoundIdentity> {
  const tenant = await tenants.get(backend.tenantOf(tenantKey));
  const identity = backend.identityAt(tenant);
  return identity && { identity, tenant, mode: 'cookie' };
}

async function readerOf(
  backend: ExhibitorTestingBackend,
  tenants: TenantRegistry,
  module: ModuleRef,
): Promise<Pick<InstanceType<typeof reader>, 'read' | 'readAll' | 'readUnchecked'>> {
  const real = await module.create(reader);
  return {
    read: (_http, tenantKey) => userOf(backend, tenants, tenantKey),
    readAll: (http) => real.readAll(http),
    readUnchecked: (http) => real.readUnchecked(http),
  };
}

/** A login starts as usual, at an address that does not exist. Every callback is that of the user of the backend. */
async function loginOf(
  backend: ExhibitorTestingBackend,
  tenants: TenantRegistry,
  module: ModuleRef,
): Promise<Pick<InstanceType<typeof login>, 'start' | 'finish'>> {
  const real = await module.create(login);
  return {
    start: (http, tenantKey, getTarget) => real.start(http, backend.tenantOf(tenantKey), getTarget),
    finish: async (_http, { onKept }) => {
      const state = await userOf(backend, tenants);
      if (state === undefined) {
        throw new LoginFailedError('denied', 'nobody is logged in at this ExhibitorTestingModule');
      }
      return onKept(state);
    },
  };
}

async function logoutOf(
  backend: ExhibitorTestingBackend,
  module: ModuleRef,
): Promise<Pick<InstanceType<typeof logout>, 'receive' | 'end' | 'takeBack'>> {
  const real = await module.create(logout);
  return {
    receive: (...given) => real.receive(...given),
    end: async (http) => {
      await real.end(http, () => undefined);
      backend.signOut();
    },
    takeBack: async (...given) => {
      await real.takeBack(...given);
      backend.signOut();
    },
  };
}

/** The providers of the module that tests replace. All others are those of the module. */
export const TESTING_SERVICES: readonly FactoryProvider[] = [
  { provide: transport, inject: [ExhibitorTestingBackend], useFactory: transportTo },
  { provide: selections, inject: [ExhibitorTestingBackend], useFactory: selectionsOf },
  { provide: reader, inject: [ExhibitorTestingBackend, TenantRegistry, ModuleRef], useFactory: readerOf },
  { provide: login, inject: [ExhibitorTestingBackend, TenantRegistry, ModuleRef], useFactory: loginOf },
  { provide: logout, inject: [ExhibitorTestingBackend, ModuleRef], useFactory: logoutOf },
];
