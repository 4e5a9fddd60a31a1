import { memberOf } from '../http/host-members.js';
import type { ExhibitorContext, ExhibitorRequest } from '../model/exhibitor-request.interface.js';
import type { SessionState } from '../session/identity-reader.service.js';

/** Results of the guards of a request, for the decorators and the selection. */
export interface RequestState {
  session: SessionState;
  eventId?: string;
  /** The selected or the only exhibitor. */
  exhibitor?: unknown;
  exhibitors?: readonly unknown[];
}

/** Members that {@link ExhibitorGuard} gives a request. */
export type Attached = Pick<ExhibitorRequest, 'exhibitors' | 'exhibitorContext'>;

/** What was found for a request, so that further guards and decorators do not ask again. */
export class RequestMemory implements Attached {
  /** The request, or the field of GraphQL. */
  readonly subject: object;
  state?: RequestState;
  /** What {@link ExhibitorGuard} has set as `request.exhibitorContext`. */
  context?: ExhibitorContext;
  /** Answers of the functions of the host, by the name of the option. */
  answers?: Map<string, string | undefined>;
  /** The user, by the tenant that was asked for. */
  user?: { tenantKey: string | undefined; session: SessionState };
  lookup?: { session: SessionState; eventId: string; exhibitors: readonly unknown[] };
  /** What the member of an extended request answers, as the next one. */
  exhibitors?: readonly unknown[];
  exhibitorContext?: ExhibitorContext;

  constructor(subject: object) {
    this.subject = subject;
  }
}

// oxlint-disable-next-line typescript/no-extraneous-class -- what its constructor returns receives the fields of a subclass
class Returned {
  constructor(place: object) {
    return place;
  }
}

/**
 * Adds a memory to a request, in a private field: a host that serializes its request must not find a tenant in it. A WeakMap
 * would hide it as well, but a table that gains an entry at each request costs several microseconds of garbage collection.
 */
class Remembering extends Returned {
  readonly #memory: RequestMemory;

  constructor(place: object, subject: object) {
    super(place);
    this.#memory = new RequestMemory(subject);
  }

  static read(subject: object): RequestMemory | undefined {
    const memory = Remembering.#at(placeOf(subject));
    return memory === undefined || memory.subject === subject ? memory : Remembering.#at(subject);
  }

  static add(subject: object): RequestMemory {
    const place = placeOf(subject);
    // A host may make a second request from the headers of a first one. They must not share a user.
    const free = #memory in place ? subject : place;
    return new Remembering(free, subject).#memory;
  }

  static #at(place: object): RequestMemory | undefined {
    return #memory in place ? place.#memory : undefined;
  }
}

const extendedPrototypes = new WeakSet<object>();

/**
 * Gives the requests of an application of Express their members by its prototype of requests, which Express has for this.
 * Express changes the prototype of each request. Up to Node 22, V8 then makes a hidden class for that request alone, and
 * another for every member that is added: about 2 µs each. For the same reason the memory of such a request is not at the
 * request, but at its array `rawHeaders`.
 *
 * @param prototype `app.request`
 */
export function extendRequests(prototype: object): void {
  // Of the host, of an application that this one is mounted in, or of another copy of this package.
  if ('exhibitors' in prototype || 'exhibitorContext' in prototype) {
    return;
  }
  extendedPrototypes.add(prototype);
  Object.defineProperties(prototype, {
    exhibitors: accessor('exhibitors'),
    exhibitorContext: accessor('exhibitorContext'),
  });
}

function accessor<Name extends keyof Attached>(name: Name): PropertyDescriptor {
  return {
    configurable: true,
    enumerable: true,
    get(this: object): Attached[Name] {
      const memory: Attached | undefined = Remembering.read(this);
      return memory?.[name];
    },
    set(this: object, value: Attached[Name]): void {
      const memory: Attached = memoryOf(this);
      memory[name] = value;
    },
  };
}

/** True where the application of the request was extended. */
export function isExtended(request: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(request);
  return typeof prototype === 'object' && prototype !== null && extendedPrototypes.has(prototype);
}

/** The object whose private field holds the memory of a request. */
function placeOf(subject: object): object {
  const rawHeaders: unknown = isExtended(subject) ? memberOf(subject, 'rawHeaders') : undefined;
  return Array.isArray(rawHeaders) ? rawHeaders : subject;
}

/** The memory of a request or of a field of GraphQL. */
export function memoryOf(subject: object): RequestMemory {
  return foundMemoryOf(subject) ?? Remembering.add(subject);
}

/** As {@link memoryOf}; `undefined` where nothing was remembered yet. */
export function foundMemoryOf(subject: object): RequestMemory | undefined {
  return Remembering.read(subject);
}
