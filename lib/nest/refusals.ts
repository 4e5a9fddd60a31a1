/** What guards refuse a request for, and what they leave to the page that tells a person. */
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { isRecord } from '../model/json-values.js';

export function nobody(): ExhibitorError {
  return new ExhibitorError('unauthenticated', 'nobody is logged in');
}

export function noEvent(tenant: string | undefined): ExhibitorError {
  return new ExhibitorError('event_required', 'the request names no event', { tenant });
}

export function noExhibitor(message: string, tenant: string): ExhibitorError {
  return new ExhibitorError('no_exhibitor', message, { tenant });
}

/** Several exhibitors, and none chosen. */
export function notSelected(tenant: string | undefined): ExhibitorError {
  return new ExhibitorError('exhibitor_not_selected', 'select one of your exhibitors first', { tenant });
}

/** What a refused request was about, for the page that the person sees. */
export interface Place {
  /** Key of the tenant. */
  tenant?: string | undefined;
  eventId?: string | undefined;
  /** Where a new login leads back to; `undefined` for nowhere. */
  returnTo: string | undefined;
}

const refusals = new WeakSet<object>();

/** By request, not by what was thrown: code of a host may throw one object for many people. */
const places = new WeakMap<object, Place>();

/** Marks what a guard, a decorator or a route of ours throws, so that the filter takes it, whatever it is. */
export function markRefusal<T>(thrown: T): T {
  if (isRecord(thrown)) {
    refusals.add(thrown);
  }
  return thrown;
}

export function isRefusal(thrown: unknown): boolean {
  return isRecord(thrown) && refusals.has(thrown);
}

/** Keeps what a refused request was about, for the filter. */
export function keepPlace(request: object, place: Place): void {
  places.set(request, place);
}

/** What a guard knew of a request that it refused. */
export function placeOf(request: object): Place | undefined {
  return places.get(request);
}
