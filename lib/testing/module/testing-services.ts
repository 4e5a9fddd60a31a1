import type { FactoryProvider } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import {
  ExhibitorGuardServices,
  ExhibitorModule,
  LoginFailedError,
  TenantRegistry,
  type SessionState,
} from '../../index.js';
import { ExhibitorTestingBackend } from './testing-backend.js';
import { TestingTransport } from './testing-transport.js';

const { transport, resolver, selections, login, logout, log } = ExhibitorModule.forTests;

type SelectionCookie = InstanceType<typeof selections>;

/** The steps of the guards are those of the module, but for who the user of a request is: the one of the backend. */
function guardServices(
  backend: ExhibitorTestingBackend,
  tenants: TenantRegistry,
  adapterHost: HttpAdapterHost,
  requests: InstanceType<typeof resolver>,
  selectionCookie: SelectionCookie,
  logins: InstanceType<typeof login>,
  logouts: InstanceType<typeof logout>,
  problems: InstanceType<typeof log>,
): ExhibitorGuardServices {
  const read = async (tenantKey: string | undefined): Promise<SessionState | undefined> => {
    const tenant = await tenants.get(backend.tenantOf(tenantKey));
    const identity = backend.identityAt(tenant);
    return identity && { identity, tenant, mode: 'cookie' };
  };
  return new ExhibitorGuardServices(
    adapterHost,
    requests,
    { acceptsBearer: false, read: (_http, tenantKey) => read(tenantKey) },
    selectionCookie,
    {
      // A login starts as usual, at an address that does not exist. Every callback is that of the user of the backend.
      start: (http, tenantKey, target) => logins.start(http, backend.tenantOf(tenantKey), target),
      finish: async () => {
        const state = await read(undefined);
        if (state === undefined) {
          throw new LoginFailedError('denied', 'nobody is logged in at this ExhibitorTestingModule');
        }
        return state;
      },
    },
    {
      hearsProvider: true,
      receive: (http, tenantKey) => logouts.receive(http, tenantKey),
      end: async (http) => {
        await logouts.end(http, () => undefined);
        backend.signOut();
      },
    },
    problems,
  );
}

/** The providers of the module that tests replace. All others are those of the module. */
export const TESTING_SERVICES: readonly FactoryProvider[] = [
  {
    provide: transport,
    inject: [ExhibitorTestingBackend],
    useFactory: (backend: ExhibitorTestingBackend) => new TestingTransport(backend),
  },
  {
    provide: selections,
    inject: [ExhibitorTestingBackend],
    useFactory: ({ selections: kept }: ExhibitorTestingBackend): Pick<SelectionCookie, 'read' | 'write'> => ({
      read: (_http, _session, eventId) => kept.get(eventId),
      write: (_http, _session, eventId, id) =>
        void (id === undefined ? kept.delete(eventId) : kept.set(eventId, id)),
    }),
  },
  {
    provide: ExhibitorGuardServices,
    inject: [
      ExhibitorTestingBackend,
      TenantRegistry,
      HttpAdapterHost,
      resolver,
      selections,
      login,
      logout,
      log,
    ],
    useFactory: guardServices,
  },
];
