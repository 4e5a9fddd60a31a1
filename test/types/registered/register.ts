/** A host that sets the type of all exhibitors. A project of its own, since it changes the type everywhere. */
import { expectTypeOf } from 'expect-type';
import {
  ExhibitorModule,
  type Exhibitor,
  type ExhibitorSelection,
  type ExhibitorsService,
  type TenantOptions,
} from 'nestjs-exhibitor';
import type { Observable } from 'rxjs';

interface Booth {
  id: string;
  hall: number;
}

declare module 'nestjs-exhibitor' {
  interface ExhibitorRegister {
    exhibitor: Booth;
  }
}

declare const tenant: TenantOptions;
declare const exhibitors: ExhibitorsService;

expectTypeOf<Exhibitor>().toEqualTypeOf<Booth>();
expectTypeOf(exhibitors.stream('e')).toEqualTypeOf<Observable<Booth>>();
expectTypeOf<ExhibitorSelection['select']>().returns.resolves.toEqualTypeOf<Booth>();
ExhibitorModule.forRoot({ tenant, exhibitorId: ({ hall }) => String(hall) });
