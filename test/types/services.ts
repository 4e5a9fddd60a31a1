/** Types of the services, and of errors. Compiled against the published declarations. */
import { expectTypeOf } from 'expect-type';
import {
  compareExhibitors,
  type ConfigurationError,
  isExhibitorError,
  LoginFailedError,
  type PaginationDriftError,
  type TokenRejectedError,
  type ConfigurationProblem,
  type Exhibitor,
  type ExhibitorErrorCode,
  type ExhibitorPage,
  type ExhibitorSelection,
  type ExhibitorSnapshot,
  ExhibitorsService,
  type LoginFailureReason,
  type PaginationBreach,
} from 'nestjs-exhibitor';
import { Injectable, type INestApplicationContext } from '@nestjs/common';
import type { ModuleRef } from '@nestjs/core';
import type { Observable } from 'rxjs';

interface Booth {
  id: string;
}

declare const booths: ExhibitorsService<Booth>;
declare const exhibitors: ExhibitorsService;
const tenant = undefined as string | undefined;

expectTypeOf(exhibitors.stream('e')).toEqualTypeOf<Observable<Exhibitor>>();
expectTypeOf<Exhibitor>().toEqualTypeOf<Record<string, unknown>>();
expectTypeOf(booths.list('e', { page: 1, tenant })).toEqualTypeOf<Observable<ExhibitorPage<Booth>>>();
expectTypeOf(booths.stream('e', { signal: undefined })).toEqualTypeOf<Observable<Booth>>();
expectTypeOf(booths.iterate('e')).toEqualTypeOf<AsyncIterableIterator<Booth>>();
expectTypeOf(booths.iteratePages('e')).toEqualTypeOf<AsyncIterableIterator<ExhibitorPage<Booth>>>();
declare const page: ExhibitorPage<Booth>;
booths.iteratePages('e', { startPage: 2, expect: { totalCount: 60, itemsPerPage: undefined } });
booths.stream('e', { startPage: 2, expect: page.paginationMetadata });
// @ts-expect-error -- the size needs its count
booths.pages('e', { expect: { itemsPerPage: 50 } });
// @ts-expect-error -- a snapshot is never resumed
booths.snapshot('e', { expect: { totalCount: 60 } });
expectTypeOf(booths.snapshot('e')).toEqualTypeOf<Observable<ExhibitorSnapshot<Booth>>>();
expectTypeOf(booths.lookup('e', 'sam@example.com')).toEqualTypeOf<Observable<readonly Booth[]>>();
expectTypeOf(booths.forTenant('acme')).toEqualTypeOf<ExhibitorsService<Booth>>();
// Of a class with a type parameter, TypeScript would infer `unknown` for it.
declare const app: INestApplicationContext;
declare const modules: ModuleRef;
expectTypeOf(app.get(ExhibitorsService)).toEqualTypeOf<ExhibitorsService>();
expectTypeOf(app.get(ExhibitorsService).iterate('e')).toEqualTypeOf<AsyncIterableIterator<Exhibitor>>();
expectTypeOf(modules.get(ExhibitorsService).stream('e')).toEqualTypeOf<Observable<Exhibitor>>();
expectTypeOf(app.get<ExhibitorsService<Booth>>(ExhibitorsService).iterate('e')).toEqualTypeOf<
  AsyncIterableIterator<Booth>
>();
@Injectable()
class BoothsService extends ExhibitorsService<Booth> {}
expectTypeOf<BoothsService>().toExtend<ExhibitorsService<Booth>>();
@Injectable()
export class Catalogue {
  constructor(readonly all: ExhibitorsService) {}
}
expectTypeOf<ExhibitorSelection<Booth>['select']>().returns.resolves.toEqualTypeOf<Booth>();
const changes = compareExhibitors([{ id: 'a' }], [{ id: 'b' }]);
expectTypeOf(changes.added).toExtend<readonly Booth[]>();
// @ts-expect-error -- itemsPerPage is a number
booths.list('e', { itemsPerPage: '50' });

declare const error: unknown;
if (isExhibitorError(error)) {
  expectTypeOf(error.code).toEqualTypeOf<ExhibitorErrorCode>();
  expectTypeOf(error.retryAfterMs).toEqualTypeOf<number | undefined>();
  // @ts-expect-error -- only a refused login has a reason
  String(error.reason);
  switch (error.code) {
    case 'login_failed':
      expectTypeOf(error).toEqualTypeOf<LoginFailedError>();
      expectTypeOf(error.reason).toEqualTypeOf<LoginFailureReason>();
      break;
    case 'configuration_invalid':
      expectTypeOf(error.problems).toEqualTypeOf<readonly ConfigurationProblem[]>();
      break;
    case 'pagination_drift':
      expectTypeOf(error.breach).toEqualTypeOf<Readonly<PaginationBreach>>();
      expectTypeOf(error.lastGoodPage).toBeNumber();
      break;
    case 'token_rejected':
      expectTypeOf(error.oauthError).toBeString();
      break;
    default:
      // @ts-expect-error -- none of the others has fields of its own
      String(error.problems);
  }
}

expectTypeOf<LoginFailedError['code']>().toEqualTypeOf<'login_failed'>();
expectTypeOf<ConfigurationError['code']>().toEqualTypeOf<'configuration_invalid'>();
expectTypeOf<PaginationDriftError['code']>().toEqualTypeOf<'pagination_drift'>();
expectTypeOf<TokenRejectedError['code']>().toEqualTypeOf<'token_rejected'>();
if (error instanceof LoginFailedError) {
  expectTypeOf(error.reason).toEqualTypeOf<LoginFailureReason>();
}
