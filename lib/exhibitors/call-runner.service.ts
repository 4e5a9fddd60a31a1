/** The calls of a host: their arguments, which are checked before anything is sent, their tenant and their time. */
import { Inject, Injectable } from '@nestjs/common';
import { Observable, type Subscriber, type Subscription } from 'rxjs';
import * as v from 'valibot';
import { CHECKED_OPTIONS, type CheckedOptions } from '../config/check-options.js';
import { TenantRegistry } from '../config/tenant-registry.service.js';
import type { Tenant } from '../config/tenant.js';
import type { Call } from '../call/call.js';
import { Calls } from '../call/calls.service.js';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { isRecord } from '../model/json-values.js';
import { checkContactEmail, checkEventId } from '../model/path-parameters.js';
import { whole } from '../config/value-schemas.js';
import { LONGEST_TIMER } from '../call/clock.js';
import type { CallOptions, LookupFilter } from './call-options.interface.js';

const tenantKey = v.optional(
  v.custom<string>((value) => typeof value === 'string' && value !== '', 'must be the key of a tenant'),
);

/** Default and maximum of `ItemsPerPage` (service specification, Limits). */
const itemsPerPage = v.optional(whole(1, 50), 50);
const prefetch = v.optional(whole(1, 16), 4);

const callOptions = {
  tenant: tenantKey,
  deadline: v.optional(whole(1, LONGEST_TIMER)),
  signal: v.optional(v.custom<AbortSignal>(isAbortSignal, 'must be an AbortSignal')),
};
export const listOptions = options({ page: v.optional(whole(1), 1), itemsPerPage });
/** The size of an event: the `paginationMetadata` of any page fits. */
const expectedSize = v.object(
  // NaN stands for a missing count, which would otherwise get the message of the object.
  { totalCount: v.optional(whole(0), NaN), itemsPerPage: v.optional(whole(0)) },
  'must be an object',
);
export const streamOptions = options({
  itemsPerPage,
  startPage: v.optional(whole(1), 1),
  maxPages: v.optional(whole(1)),
  prefetch,
  onDrift: v.nullish(v.picklist(['error', 'ignore'], "must be 'error' or 'ignore'"), 'error'),
  expect: v.optional(expectedSize),
});
export const snapshotOptions = options({ itemsPerPage, prefetch, attempts: v.optional(whole(1, 100), 3) });
export const lookupOptions = options({ fresh: v.nullish(v.boolean('must be true or false'), false) });
const lookupFilter = v.object(
  {
    tenant: tenantKey,
    eventId: v.optional(v.pipe(v.unknown(), v.transform(checkEventId))),
    contactEmail: v.optional(v.pipe(v.unknown(), v.transform(checkContactEmail))),
  },
  'must be an object',
);

/** Checked options, with their defaults. */
export type ListCall = v.InferOutput<typeof listOptions>;
export type StreamCall = v.InferOutput<typeof streamOptions>;

interface CallSubject {
  eventId: string;
  contactEmail?: string;
}

/** @throws {ExhibitorError} `invalid_argument` */
export function checkSubject(subject: CallSubject): void {
  checkEventId(subject.eventId);
  if ('contactEmail' in subject) {
    checkContactEmail(subject.contactEmail);
  }
}

/**
 * The options of a call of a view that is bound to a tenant. To name another one is refused, so that its data cannot be read by
 * mistake.
 *
 * @throws {ExhibitorError} `invalid_argument`
 */
export function withTenant<Options extends Pick<CallOptions, 'tenant'>>(
  given: Options | undefined,
  boundTo: string | undefined,
): Options | { tenant: string } | undefined {
  if (boundTo === undefined || !isRecord(given ?? {})) {
    return given;
  }
  if ((given?.tenant ?? boundTo) === boundTo) {
    return { ...given, tenant: boundTo };
  }
  throw new ExhibitorError('invalid_argument', 'tenant must not be another than that of forTenant');
}

/**
 * The arguments of a call, with the defaults of its options.
 *
 * @param boundTo key of the tenant of `forTenant`
 * @throws {ExhibitorError} `invalid_argument`
 */
export function checkCall<Subject extends CallSubject, Checked extends object>(
  subject: Subject,
  schema: v.GenericSchema<unknown, Checked>,
  given: CallOptions | undefined,
  boundTo: string | undefined,
): Subject & Checked {
  checkSubject(subject);
  return Object.assign(check(schema, withTenant(given, boundTo) ?? {}, 'options'), subject);
}

/** @throws {ExhibitorError} `invalid_argument` */
export function checkLookupFilter(given: LookupFilter | undefined): LookupFilter {
  return check(lookupFilter, given ?? {}, 'filter');
}

/** The value as the schema parses it; else the first problem, with the name of its member, or else `name`. */
function check<Output>(schema: v.GenericSchema<unknown, Output>, value: unknown, name: string): Output {
  const parsed = v.safeParse(schema, value, { abortEarly: true });
  if (parsed.success) {
    return parsed.output;
  }
  const [issue] = parsed.issues;
  throw new ExhibitorError('invalid_argument', `${v.getDotPath(issue) ?? name} ${issue.message}`);
}

function options<const Entries extends v.ObjectEntries>(entries: Entries) {
  return v.object({ ...callOptions, ...entries }, 'must be an object');
}

function isAbortSignal(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'aborted' in value && 'addEventListener' in value;
}

/** Finds the tenant of a call within the time of the call. */
@Injectable()
export class CallRunner {
  /** In ms, of the module. */
  readonly #deadline: number;

  constructor(
    @Inject(TenantRegistry) private readonly tenants: TenantRegistry,
    @Inject(Calls) private readonly calls: Calls,
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
  ) {
    this.#deadline = settings.http.deadline;
  }

  /**
   * Runs a call of one request, `list` or `lookup`. Its time begins before the tenant is found, since a `TenantSource` may be slow.
   * It ends when its consumer leaves.
   *
   * @throws {ExhibitorError} `tenant_required`, `unknown_tenant`, `deadline_exceeded`, `aborted`, and errors of `work`
   */
  async run<R>(
    { tenant: key, deadline, signal }: CallOptions,
    consumer: Subscription,
    work: (tenant: Tenant, call: Call) => Promise<R>,
  ): Promise<R> {
    const found = this.tenants.resolve(key, deadline);
    const isSearched = found instanceof Promise;
    const ms = deadline ?? (isSearched ? this.#deadline : found.http.deadline);
    const call = this.calls.start(ms, signal);
    consumer.add(call.abort);
    return call.run(async () => {
      const tenant = await awaited(found, call);
      if (isSearched) {
        // The tenant may have a shorter deadline than the module: it counts from the start of the call on.
        const elapsed = ms - call.remaining();
        call.setTimeLeft((deadline ?? tenant.http.deadline) - elapsed);
      }
      requireTime(call, tenant);
      const result = await work(tenant, call);
      // The call is done: its consumer has nothing to end any more.
      consumer.remove(call.abort);
      return result;
    });
  }

  /** The tenant of a call of several requests. The search is a part of the call, with the time of one request. */
  tenantOf({ tenant: key, deadline }: CallOptions, reading: Call): Promise<Tenant> {
    return reading.part(deadline ?? this.#deadline).run(async (search) => {
      const tenant = await awaited(this.tenants.resolve(key, deadline), search);
      requireTime(search, tenant);
      return tenant;
    });
  }
}

function awaited(found: Tenant | Promise<Tenant>, call: Call): Tenant | Promise<Tenant> {
  return found instanceof Promise ? call.race(found) : found;
}

function requireTime(call: Call, tenant: Tenant): void {
  if (call.isOver) {
    throw call.failure({ tenant: tenant.key });
  }
}

/**
 * A cold Observable of a call. Options are checked on subscription, so that a wrong one is an error notification.
 *
 * @param run the call, which passes what it finds to its consumer, and ends when the consumer leaves
 */
export function fromCall<Options, R>(
  checked: () => Options,
  run: (options: Options, consumer: Subscriber<R>) => Promise<void>,
): Observable<R> {
  return new Observable((consumer) => {
    run(checked(), consumer).then(
      () => consumer.complete(),
      (error: unknown) => consumer.error(error),
    );
  });
}
