import { Inject } from '@nestjs/common';
import { ExhibitorGuardServices, LoginFailedError, TenantRegistry, type SessionState } from '../../index.js';
import { ExhibitorTestingBackend } from './testing-backend.js';

type GuardServices = ExhibitorGuardServices['all'];

/** The services of the guards, for the user that the backend has logged in. */
export class TestingGuardServices extends ExhibitorGuardServices {
  declare readonly backend: ExhibitorTestingBackend;
  declare readonly tenants: TenantRegistry;

  override get all(): GuardServices {
    const { login, logout, ...services } = super.all;
    const { backend } = this;
    return {
      ...services,
      reader: { acceptsBearer: false, read: async (_http, tenantKey) => this.#state(tenantKey) },
      // A login starts as usual, at an address that does not exist. Every callback is that of the user of the backend.
      login: {
        start: (http, tenantKey, target) => login.start(http, backend.tenantOf(tenantKey), target),
        finish: async (http) => {
          const state = await this.#state(undefined);
          if (state === undefined) {
            throw new LoginFailedError('denied', 'nobody is logged in at this ExhibitorTestingModule');
          }
          http.request.user = state.identity;
          return state;
        },
      },
      logout: {
        hearsProvider: true,
        receive: (http, tenantKey) => logout.receive(http, tenantKey),
        end: async (http) => {
          await logout.end(http, () => undefined);
          backend.signOut();
        },
      },
    };
  }

  async #state(tenantKey: string | undefined): Promise<SessionState | undefined> {
    const tenant = await this.tenants.get(this.backend.tenantOf(tenantKey));
    const identity = this.backend.identityAt(tenant);
    return identity && { identity, tenant, mode: 'cookie' };
  }
}

// Not in its constructor, whose parameters are those of `ExhibitorGuardServices`.
Inject(ExhibitorTestingBackend)(TestingGuardServices.prototype, 'backend');
Inject(TenantRegistry)(TestingGuardServices.prototype, 'tenants');
