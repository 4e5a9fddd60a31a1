/** Provides a {@link StandIn}. Only tests of hosts have one: `nestjs-exhibitor/testing`. @internal */
export const STAND_IN = Symbol('nestjs-exhibitor:stand-in');

/** Stands in for the service in tests of a host. */
export interface StandIn {
  /** Key of the tenant of calls and requests that name none. */
  readonly tenant: string;
  /** Called by each call of a service before anything else. What it throws, the call throws. */
  call(call: ServiceCall): void;
}

/** A call of a service. */
export interface ServiceCall {
  /** `list`, `pages`, `stream`, `iterate`, `iteratePages`, `snapshot`, `lookup` (also of `ExhibitorGuard`) or `token`. */
  readonly method: string;
  readonly tenant: string;
  readonly eventId?: string;
  readonly contactEmail?: string;
}
