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
  /** Where a new login leads back to. */
  returnTo?: string | undefined;
}

const places = new WeakMap<object, Place>();

/** Marks what a guard, a decorator or a route of ours throws, so that the filter takes it, whatever it is. */
export function markRefusal<T>(thrown: T, place: Place = {}): T {
  if (isRecord(thrown)) {
    places.set(thrown, { ...places.get(thrown), ...place });
  }
  return thrown;
}

/** What is known of a refused request; `undefined` for an error that is none of ours. */
export function placeOf(thrown: unknown): Place | undefined {
  return isRecord(thrown) ? places.get(thrown) : undefined;
}
