/** The public services, with each call told to the backend. */
import type { Type } from '@nestjs/common';
import { defer, type Observable } from 'rxjs';
import { ExhibitorsService, TokenService, type CallOptions, type GetTokenOptions } from '../../index.js';
import type { ExhibitorTestingBackend, ExhibitorTestingMethod } from './testing-backend.js';

/**
 * Tells the backend of each call, on subscription or at the first `next()`. Replaces methods of the instance itself, since a view of
 * another tenant is one too.
 *
 * @param boundTo key of the tenant of `forTenant`
 */
function watchCalls<T>(
  service: ExhibitorsService<T>,
  backend: ExhibitorTestingBackend,
  boundTo?: string,
): ExhibitorsService<T> {
  const call = (
    method: ExhibitorTestingMethod,
    options: CallOptions | undefined,
    eventId: string,
    contactEmail?: string,
  ) => {
    const tenant = options?.tenant ?? boundTo ?? backend.tenant ?? '';
    backend.call({ method, tenant, eventId, ...(contactEmail !== undefined && { contactEmail }) });
  };
  const observed =
    <Options extends CallOptions, R>(
      method: ExhibitorTestingMethod,
      read: (eventId: string, options?: Options) => Observable<R>,
    ) =>
    (eventId: string, options?: Options) =>
      defer(() => {
        call(method, options, eventId);
        return read.call(service, eventId, options);
      });
  const iterated = <Options extends CallOptions, R>(
    method: ExhibitorTestingMethod,
    read: (eventId: string, options?: Options) => AsyncIterableIterator<R>,
  ) =>
    async function* (eventId: string, options?: Options) {
      call(method, options, eventId);
      yield* read.call(service, eventId, options);
    };
  const { forTenant, lookup, lookupOf } = service;
  return Object.assign(service, {
    forTenant: (key: string) => watchCalls(forTenant.call(service, key), backend, key),
    list: observed('list', service.list),
    pages: observed('pages', service.pages),
    stream: observed('stream', service.stream),
    snapshot: observed('snapshot', service.snapshot),
    iterate: iterated('iterate', service.iterate),
    iteratePages: iterated('iteratePages', service.iteratePages),
    lookup: (...given: Parameters<typeof lookup>) =>
      defer(() => {
        const [eventId, contactEmail, options] = given;
        call('lookup', options, eventId, contactEmail);
        return lookup.apply(service, given);
      }),
    lookupOf: (subject: Parameters<typeof lookupOf>[0]) => {
      call('lookup', { tenant: subject.tenant.key }, subject.eventId, subject.contactEmail);
      return lookupOf.call(service, subject);
    },
  });
}

/** What the test changes is seen at once, also where lookups are cached. */
export function watchedExhibitors(backend: ExhibitorTestingBackend): Type<ExhibitorsService> {
  return class extends ExhibitorsService {
    constructor(...injected: ConstructorParameters<typeof ExhibitorsService>) {
      super(...injected);
      backend.onChange.push(() => void this.invalidateLookups());
      watchCalls(this, backend);
    }
  };
}

export function watchedTokens(backend: ExhibitorTestingBackend): Type<TokenService> {
  return class extends TokenService {
    override async getToken(options?: GetTokenOptions) {
      backend.call({ method: 'token', tenant: options?.tenant ?? backend.tenant ?? '' });
      return super.getToken(options);
    }
  };
}
