/** How the type of an exhibitor goes from the options to a host. Compiled against the published declarations. */
import { Injectable } from '@nestjs/common';
import { expectTypeOf } from 'expect-type';
import {
  defineExhibitorOptions,
  ExhibitorCallbackGuard,
  ExhibitorLoginGuard,
  ExhibitorModule,
  exhibitorOptionsFrom,
  type Exhibitor,
  type ExhibitorModuleOptions,
  type ExhibitorOptionsFactory,
  type LoginOptions,
  type TenantOptions,
} from 'nestjs-exhibitor';
import { z } from 'zod';

interface Booth {
  id: string;
  hall: number;
}

declare const tenant: TenantOptions;
const schema = z.object({ id: z.string(), hall: z.number() });
const idOfBooth = (booth: Booth): string => booth.id;

// The schema types the records of every function of the options.
ExhibitorModule.forRoot({
  tenant,
  exhibitorSchema: schema,
  exhibitorId: (exhibitor) => {
    expectTypeOf(exhibitor).toEqualTypeOf<Booth>();
    return exhibitor.id;
  },
});
ExhibitorModule.forRoot({ tenant, exhibitorSchema: schema, exhibitorId: idOfBooth, isGlobal: true });
ExhibitorModule.forRoot<Booth>({ tenant, exhibitorId: ({ hall }) => String(hall) });
ExhibitorModule.forRoot({
  tenant,
  exhibitorSchema: schema,
  // @ts-expect-error -- the records of the schema have no `stand`
  exhibitorId: ({ stand }) => String(stand),
});
ExhibitorModule.forRoot({
  tenant,
  exhibitorId: (exhibitor) => {
    expectTypeOf(exhibitor).toEqualTypeOf<Exhibitor>();
    return String(exhibitor['id']);
  },
});

// Exactly one of `tenant` and `tenants`.
ExhibitorModule.forRoot({ tenants: { acme: tenant } });
ExhibitorModule.forRoot({ tenants: { find: async () => tenant }, allowedOrigins: () => true });
// @ts-expect-error -- both
ExhibitorModule.forRoot({ tenant, tenants: { acme: tenant } });
// @ts-expect-error -- none
ExhibitorModule.forRoot({ secrets: [] });

// Factories.
ExhibitorModule.forRootAsync({
  isGlobal: true,
  useFactory: () => ({ tenant, exhibitorSchema: schema, exhibitorId: idOfBooth }),
});
ExhibitorModule.forRootAsync({
  inject: ['TENANT'],
  useFactory: async (found: TenantOptions) => ({ tenants: { found } }),
});
ExhibitorModule.forRootAsync<Booth>({
  useFactory: () => ({ tenant, exhibitorId: ({ hall }) => String(hall) }),
});
// @ts-expect-error -- the factory answers both
ExhibitorModule.forRootAsync({ useFactory: () => ({ tenant, tenants: { acme: tenant } }) });

// The login routes, with guards of the host. A guard of another route does not compile.
@Injectable()
class OwnCallbackGuard extends ExhibitorCallbackGuard {}
ExhibitorModule.forRoot({ tenant, routes: 'auth' });
ExhibitorModule.forRootAsync({
  routes: { path: ':tenant/auth', guards: { callback: OwnCallbackGuard }, backChannelLogout: true },
  useFactory: () => ({ tenant }),
});
// @ts-expect-error -- a login guard at the callback
ExhibitorModule.forRoot({ tenant, routes: { path: 'auth', guards: { callback: ExhibitorLoginGuard } } });
// @ts-expect-error -- this route would be missing without an error
ExhibitorModule.forRoot({ tenant, routes: { path: 'auth', backchannelLogout: true } });
// @ts-expect-error -- a guard that would stand nowhere
ExhibitorModule.forRoot({ tenant, routes: { path: 'auth', guards: { logIn: ExhibitorLoginGuard } } });
// @ts-expect-error -- true names no path
ExhibitorModule.forRoot({ tenant, routes: true });

@Injectable()
class BoothOptions implements ExhibitorOptionsFactory<Booth> {
  createExhibitorOptions(): ExhibitorModuleOptions<Booth> {
    return { tenant, exhibitorSchema: schema, exhibitorId: ({ id }) => id };
  }
}
ExhibitorModule.forRootAsync({ useClass: BoothOptions });
ExhibitorModule.forRootAsync<Booth>({ useExisting: BoothOptions });

// Typing errors in a factory are compile errors.
ExhibitorModule.forRootAsync({
  useFactory: () =>
    defineExhibitorOptions({
      tenant,
      // @ts-expect-error -- no such option
      lookupCahce: false,
    }),
});
expectTypeOf(defineExhibitorOptions({ tenant, exhibitorSchema: schema })).toEqualTypeOf<
  ExhibitorModuleOptions<Booth>
>();

// Optional members may be undefined, also under `exactOptionalPropertyTypes`.
const maxAge = undefined as number | undefined;
const attempts = undefined as number | undefined;
defineExhibitorOptions({
  tenant: { ...tenant, scope: undefined, http: { attempts }, clientAuth: undefined },
  secrets: undefined,
  tenantCache: { ttl: undefined, max: undefined, staleIfError: undefined },
  http: { deadline: undefined, attempts, dispatcher: undefined },
  lookupCache: { ttl: undefined },
  cookies: { sameSite: undefined },
  exhibitorSchema: undefined,
});
expectTypeOf({ ...({} as LoginOptions), maxAge }).toExtend<LoginOptions>();

// Options of the environment.
ExhibitorModule.forRootAsync({
  useFactory: () =>
    defineExhibitorOptions({
      ...exhibitorOptionsFrom(process.env),
      exhibitorSchema: schema,
      session: 'cookie',
    }),
});
const acme = exhibitorOptionsFrom({ ACME_TENANT_ID: 'x', OTHER: undefined }, { prefix: 'ACME_' });
defineExhibitorOptions({ tenants: { acme: acme.tenant }, secrets: acme.secrets });
expectTypeOf(acme.tenant.login.issuer).toEqualTypeOf<string>();
declare const key: string;
exhibitorOptionsFrom(process.env, { prefix: `${key.toUpperCase()}_` });
// @ts-expect-error -- a prefix ends with `_`
exhibitorOptionsFrom(process.env, { prefix: 'ACME' });
