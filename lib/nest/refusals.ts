/** What guards refuse a request for. */
import { ExhibitorError } from '../errors/exhibitor.error.js';

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
