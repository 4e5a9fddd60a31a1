import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { Meter } from '@opentelemetry/api';
import type { LoginMessage, LookupMessage, RequestMessage, TokenMessage } from '../../index.js';
import { withoutContact } from '../../model/urls.js';

/** Those of the semantic conventions, in seconds. */
const BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];

/**
 * Records what the package publishes on its diagnostics channels: `http.client.request.duration` of each attempt on the wire, by
 * the semantic conventions of OpenTelemetry for HTTP clients, and the counters `nestjs_exhibitor.tokens`, `.lookups` and `.logins`
 * by `outcome`. No attribute contains a token, a secret or an e-mail address.
 *
 * @param meter of the SDK. Call it after the SDK was started.
 * @returns ends the subscriptions
 * @example
 * const stop = exhibitorMetrics(metrics.getMeter('nestjs-exhibitor'));
 */
export function exhibitorMetrics(meter: Meter): () => void {
  const duration = meter.createHistogram('http.client.request.duration', {
    unit: 's',
    advice: { explicitBucketBoundaries: BUCKETS },
  });
  const tokens = meter.createCounter('nestjs_exhibitor.tokens', { unit: '{token}' });
  const lookups = meter.createCounter('nestjs_exhibitor.lookups', { unit: '{lookup}' });
  const logins = meter.createCounter('nestjs_exhibitor.logins', { unit: '{login}' });

  const ends = [
    listen<RequestMessage>('request', (one) => duration.record(one.durationMs / 1000, attributesOf(one))),
    listen<TokenMessage>('token', ({ tenant, outcome, code }) =>
      tokens.add(1, { tenant, outcome, ...(code && { 'error.type': code }) }),
    ),
    listen<LookupMessage>('lookup', ({ tenant, outcome }) => lookups.add(1, { tenant, outcome })),
    listen<LoginMessage>('login', ({ tenant, outcome, reason }) =>
      logins.add(1, { ...(tenant && { tenant }), outcome, ...(reason && { reason }) }),
    ),
  ];
  return () => ends.forEach((end) => end());
}

function listen<Message>(channel: string, onMessage: (message: Message) => void): () => void {
  const name = `nestjs-exhibitor:${channel}`;
  const listener = (message: unknown): void => onMessage(Object(message));
  subscribe(name, listener);
  return () => void unsubscribe(name, listener);
}

function attributesOf({ tenant, method, origin, template, status, code, cause }: RequestMessage) {
  const { hostname, port, protocol } = new URL(origin);
  const failure = status !== undefined && status >= 400 ? String(status) : (cause ?? code);
  return {
    tenant,
    'http.request.method': method,
    'server.address': hostname,
    'server.port': Number(port || (protocol === 'https:' ? 443 : 80)),
    'url.template': template,
    ...(status && { 'http.response.status_code': status }),
    ...(failure && { 'error.type': failure }),
  };
}

/**
 * The option `startSpanHook` of `@opentelemetry/instrumentation-undici`: keeps the e-mail address of a contact, which is in the path
 * of a lookup, out of the attributes of spans, before samplers see them.
 *
 * @example
 * new UndiciInstrumentation({ startSpanHook: hideAddresses })
 */
export function hideAddresses(request: { origin: string | URL; path: string }): Record<string, string> {
  if (withoutContact(request.path) === request.path) {
    return {};
  }
  // The path may begin with two slashes, and to a proxy it is a whole URL.
  const isPath = request.path.startsWith('/');
  const { origin, pathname, search } = new URL(
    isPath ? new URL(request.origin).origin + request.path : request.path,
  );
  const path = withoutContact(pathname);
  return path === pathname ? {} : { 'url.full': `${origin}${path}${search}`, 'url.path': path };
}
