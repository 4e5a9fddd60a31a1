/** The part of the path of a lookup that names a contact, raw or encoded. */
const CONTACT = /\/contactEmail\/[^/]+/;

/**
 * The option `startSpanHook` of `@opentelemetry/instrumentation-undici`: keeps the e-mail address of a contact, which is in the path
 * of a lookup, out of the attributes of spans, before samplers see them.
 *
 * @example
 * new UndiciInstrumentation({ startSpanHook: hideAddresses })
 */
export function hideAddresses(request: { origin: string | URL; path: string }): Record<string, string> {
  const { origin, pathname, search } = new URL(request.path, request.origin);
  const path = pathname.replace(CONTACT, '/contactEmail/{contactEmail}');
  const template = '/api/v1/exhibitor/event/{eventId}/contactEmail/{contactEmail}';
  return path === pathname
    ? {}
    : { 'url.full': `${origin}${path}${search}`, 'url.path': path, 'url.template': template };
}
