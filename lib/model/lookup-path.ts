/** The path of a lookup holds the e-mail address of a contact. This file imports nothing: OpenTelemetry starts before Nest is loaded. */

/** To the contact, and the contact, raw or encoded. An event and a base URL may have `contactEmail` in them too: the last one counts. */
const LOOKUP_PATH = /^(.*\/contactEmail\/)([^/]+)/;

/** The contact in a path as it was sent; empty for any other path than that of a lookup. */
export function contactIn(pathname: string): string {
  return LOOKUP_PATH.exec(pathname)?.[2] ?? '';
}

/** The path without its contact. Any other path stays as it is. */
export function withoutContact(pathname: string): string {
  return pathname.replace(LOOKUP_PATH, '$1{contactEmail}');
}
