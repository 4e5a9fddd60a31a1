import type { ServerResponse } from 'node:http';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { context, metrics, propagation, trace } from '@opentelemetry/api';
import { UndiciInstrumentation } from '@opentelemetry/instrumentation-undici';
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
  type DataPoint,
} from '@opentelemetry/sdk-metrics';
import { InMemorySpanExporter, NodeTracerProvider, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-node';
import { firstValueFrom, lastValueFrom } from 'rxjs';
import { publish } from '../../lib/call/channels.js';
import { isRecord } from '../../lib/model/json-values.js';
import { hideAddresses } from '../../lib/integrations/opentelemetry/index.js';
import { honest, startRestHost, startService } from '../exhibitors/rest-host.js';
import { signIn } from '../nest/signed-in.js';
import { leaksOf } from '../setup/leaks.js';
import { MemoryStore } from '../store/memory-store.js';
import { clockOf } from '../support/clock.js';
import { acmeOptions, startHost } from '../support/host.js';
import { useSandbox } from '../support/lifetimes.js';
import { loadSnippets } from '../support/snippets.js';

const CHANNELS = ['request', 'token', 'lookup', 'login', 'store', 'drift'];

/** What the snippet of the page exports. */
interface Recipe {
  undici: UndiciInstrumentation;
  observeExhibitors(): () => void;
}

const sandbox = await useSandbox();

describe('the recipe of docs/observability.md', () => {
  const spans = new InMemorySpanExporter();
  const measured = new InMemoryMetricExporter(AggregationTemporality.DELTA);
  const tracing = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] });
  const metering = new MeterProvider({
    readers: [new PeriodicExportingMetricReader({ exporter: measured, exportIntervalMillis: 3_600_000 })],
  });
  const tracer = tracing.getTracer('host');
  let recipe: UndiciInstrumentation;
  let stopObserving: () => void;

  /** Each message, and the name of the span in whose context it was published. */
  let published: { what: string; where: string | undefined }[] = [];
  const spanNames = new Map<string | undefined, string>();
  const listeners = new Map(
    CHANNELS.map((channel) => {
      const listener = (message: unknown): void => {
        const { kind, operation, outcome, field } = message as Record<string, string | undefined>;
        const what = [channel, kind, operation, outcome, field].filter(Boolean).join(' ');
        published.push({ what, where: spanNames.get(trace.getActiveSpan()?.spanContext().spanId) });
      };
      return [`nestjs-exhibitor:${channel}`, listener];
    }),
  );

  beforeAll(async () => {
    tracing.register();
    metrics.setGlobalMeterProvider(metering);
    const { undici, observeExhibitors } = await loadSnippets<Recipe>('observability.md', 'opentelemetry');
    recipe = undici;
    stopObserving = observeExhibitors();
    listeners.forEach((listener, name) => subscribe(name, listener));
  });
  beforeEach(async () => {
    await metering.forceFlush();
    measured.reset();
    spans.reset();
    sandbox.clearRequests();
    published = [];
  });
  afterEach(() => {
    sandbox.latency = 0;
    // No span of any test.
    expect(spans.getFinishedSpans().length).toBeGreaterThan(0);
    expect(leaksOf(exported())).toEqual([]);
  });
  afterAll(async () => {
    listeners.forEach((listener, name) => unsubscribe(name, listener));
    recipe?.disable();
    stopObserving?.();
    await Promise.all([tracing.shutdown(), metering.shutdown()]);
    [trace, context, metrics, propagation].forEach((api) => api.disable());
  });

  /** Runs work in a span of the host. */
  function within<T>(name: string, work: (end: () => void) => T): T {
    return tracer.startActiveSpan(name, (span) => {
      spanNames.set(span.spanContext().spanId, name);
      return work(() => span.end());
    });
  }

  /** Where messages were published, by name of the span. */
  const whereWas = (what: string) =>
    published.filter((message) => message.what === what).map(({ where }) => where);

  /** What an exporter gets, without the objects of the SDK. */
  const exported = () =>
    spans
      .getFinishedSpans()
      .map(({ name, attributes, events, status }) => ({ name, attributes, events, status }));

  /** What `exhibitorMetrics` measured: the instrumentation has a histogram of the same name. */
  const measuredOf = (name: string) =>
    measured
      .getMetrics()
      .flatMap(({ scopeMetrics }) => scopeMetrics)
      .filter(({ scope }) => scope.name === 'nestjs-exhibitor')
      .flatMap((scope) => scope.metrics)
      .filter(({ descriptor }) => descriptor.name === name)
      .flatMap<DataPoint<unknown>>(({ dataPoints }) => dataPoints);

  /** The sums of a counter, and the counts of a histogram, by their attributes. */
  const pointsOf = (name: string) =>
    measuredOf(name).map(({ attributes, value }) => ({
      ...attributes,
      count: isRecord(value) ? value['count'] : value,
    }));

  it('keep the address out of the span of a lookup', async () => {
    const lookup = async (): Promise<void> => {
      spans.reset();
      const host = await startRestHost({ tenant: sandbox.tenantOptions('acme') });
      await firstValueFrom(host.exhibitors.lookup('world-2026', 'zoë+fair@example.com'));
      await host.close();
    };
    recipe.disable();
    const plain = new UndiciInstrumentation();
    await lookup();
    expect(leaksOf(exported())).toEqual(['an e-mail address']);
    plain.disable();
    recipe.enable();

    await lookup();
    expect(leaksOf(exported())).toEqual([]);
    const shown = `/api/v1/exhibitor/event/world-2026/contactEmail/{contactEmail}`;
    expect(exported().find(({ name }) => name === 'GET')?.attributes).toMatchObject({
      'url.path': shown,
      'url.full': `${sandbox.url}${shown}`,
      'server.address': '127.0.0.1',
    });
  });

  it('in a host publish in the context of the request, send traceparent, and count', async () => {
    // A span of each request to the host, as instrumentations of HTTP servers begin it.
    const traced = (request: { originalUrl: string }, response: ServerResponse, next: () => void): void =>
      within(request.originalUrl.split('?')[0] ?? '', (end) => {
        response.once('close', end);
        next();
      });
    const host = await startHost({
      configure: (app) => app.use(traced),
      options: acmeOptions(sandbox, { store: new MemoryStore() }),
    });
    const [first, second, other, failing] = [
      '/events/world-2026/mine',
      '/events/world-2026/booth',
      '/events/national-2026/mine',
      '/events/regional-2026/mine',
    ] as const;
    const sam = await signIn(sandbox, host);
    // The three wait for one token, two of them for one lookup.
    sandbox.latency = 100;
    await Promise.all([first, second, other].map((path) => sam.visit(`${host.url}${path}`)));
    sandbox.latency = 0;
    sandbox.failNext('lookup', { kind: 'status', status: 503 });
    await sam.visit(`${host.url}${failing}`);
    await sam.visit(`${host.url}/mine?eventId=world-2026`);
    await sam.visit(`${host.url}/auth/callback?state=of-no-login`);
    await host.close();
    await metering.forceFlush();

    expect(published.filter(({ where }) => where === undefined)).toEqual([]);
    expect(whereWas('login started')).toEqual(['/auth/login']);
    expect(whereWas('login succeeded')).toEqual(['/auth/callback']);
    expect(whereWas('request code')).toEqual(['/auth/callback']);
    expect(whereWas('lookup hit')).toEqual(['/mine']);
    expect(whereWas('lookup miss').toSorted()).toEqual([other, failing, second, first]);
    // What several callers wait for is requested by the first of them. The failed attempt is repeated.
    const [owner] = whereWas('token fetched');
    expect(whereWas('request token')).toEqual([owner]);
    expect(whereWas('token shared')).toHaveLength(1);
    expect(whereWas('token shared')).not.toContain(owner);
    const shared = whereWas('request lookup').filter((where) => where === first || where === second);
    expect(whereWas('request lookup').toSorted()).toEqual([other, failing, failing, ...shared]);
    expect(shared).toHaveLength(1);

    const wire = spans.getFinishedSpans().filter(({ name }) => name === 'GET' || name === 'POST');
    const sent = sandbox.requests.filter(({ operation }) => ['token', 'lookup'].includes(operation));
    expect(sent).toHaveLength(6);
    const parents = wire.map((span) => `00-${span.spanContext().traceId}-${span.spanContext().spanId}-01`);
    expect(sent.map(({ headers }) => headers['traceparent']).toSorted()).toEqual(parents.toSorted());
    expect(wire.filter(({ parentSpanContext }) => !spanNames.has(parentSpanContext?.spanId))).toEqual([]);

    const tenant = 'default';
    const once = (...outcomes: string[]) => outcomes.map((outcome) => ({ tenant, outcome, count: 1 }));
    expect(pointsOf('nestjs_exhibitor.tokens')).toStrictEqual(once('fetched', 'shared', 'hit'));
    expect(pointsOf('nestjs_exhibitor.lookups')).toEqual([
      { tenant, outcome: 'miss', count: 4 },
      { tenant, outcome: 'hit', count: 1 },
    ]);
    const refused = { outcome: 'failed', reason: 'state', count: 1 };
    expect(pointsOf('nestjs_exhibitor.logins')).toStrictEqual([...once('started', 'succeeded'), refused]);
    const lookup = {
      tenant,
      'http.request.method': 'GET',
      'server.address': '127.0.0.1',
      'server.port': Number(new URL(sandbox.url).port),
      'url.template': '/api/v1/exhibitor/event/{eventId}/contactEmail/{contactEmail}',
    };
    const duration = pointsOf('http.client.request.duration');
    expect(duration).toContainEqual({ ...lookup, 'http.response.status_code': 200, count: 3 });
    const failed = { 'http.response.status_code': 503, 'error.type': '503', count: 1 };
    expect(duration).toContainEqual({ ...lookup, ...failed });
    expect(duration.flatMap(Object.values)).not.toContain(undefined);
    // In seconds: the three lookups took a tenth of one each at least, and the token request less.
    const sums = measuredOf('http.client.request.duration').map(({ value }) => Object(value).sum);
    expect(Math.max(...sums)).toBeGreaterThan(0.1);
    expect(Math.max(...sums)).toBeLessThan(5);
    expect(leaksOf([exported(), measured.getMetrics()])).toEqual([]);
  });

  it('give a reading the context of its subscriber', async () => {
    const service = await startService(({ page, itemsPerPage }) =>
      honest(page, itemsPerPage, page < 3 ? 250 : 251),
    );
    const host = await startRestHost({ tenant: service.tenant });
    const pages = host.exhibitors.pages('event', { onDrift: 'ignore' });
    await within('reading', (end) => lastValueFrom(pages).finally(end));
    await host.close();
    await service.stop();
    expect(whereWas('request list').length).toBeGreaterThan(4);
    expect(new Set(published.map(({ where }) => where))).toEqual(new Set(['reading']));
  });

  it('tells failures without a reply apart, and ends when it is told to', async () => {
    const http = { attempts: 1, attemptTimeout: 200 };
    const host = await startRestHost({ tenant: sandbox.tenantOptions('acme'), http });
    const list = () =>
      within('failing', (end) => firstValueFrom(host.exhibitors.list('world-2026')).finally(end));
    sandbox.failNext('token', { kind: 'status', status: 400, body: '' });
    await expect(list()).rejects.toMatchObject({ code: 'token_rejected' });
    // After a failed token request there is none for a second.
    clockOf(host.context).skip(1_001);
    await list();
    sandbox.failNext('list', { kind: 'delay', ms: 400 });
    await expect(list()).rejects.toMatchObject({ code: 'service_unavailable' });
    sandbox.failNext('list', { kind: 'body', body: '[' });
    await expect(list()).rejects.toMatchObject({ code: 'malformed_response' });
    await metering.forceFlush();
    const failures = pointsOf('http.client.request.duration')
      .map((point) => Object(point)['error.type'])
      .filter(Boolean);
    expect(failures).toEqual(['400', 'timeout', 'malformed_response']);
    const failed = { tenant: 'default', outcome: 'failed', 'error.type': 'token_rejected', count: 1 };
    expect(pointsOf('nestjs_exhibitor.tokens')).toContainEqual(failed);
    measured.reset();
    stopObserving();
    await list();
    await host.close();
    await metering.forceFlush();
    expect(['http.client.request.duration', 'nestjs_exhibitor.tokens'].flatMap(pointsOf)).toEqual([]);
  });
});

it('a message is created for subscribers only', () => {
  publish('drift', (): never => {
    throw new Error('created for nobody');
  });
});

describe('hideAddresses', () => {
  const path = '/base/api/v1/exhibitor/event/a/contactEmail';
  const hidden = {
    'url.full': `https://api.example.com${path}/{contactEmail}?Page=2`,
    'url.path': `${path}/{contactEmail}`,
  };

  it.each(['sam@example.com', 'sam%2540example.com'])('hides %s, also behind a proxy', (address) => {
    const request = `${path}/${address}?Page=2`;
    expect(hideAddresses({ origin: 'https://api.example.com', path: request })).toEqual(hidden);
    const target = `https://api.example.com${request}`;
    expect(hideAddresses({ origin: new URL('http://proxy.example.com'), path: target })).toEqual(hidden);
  });

  it('hides the contact of an event of the name contactEmail', () => {
    const event = '/api/v1/exhibitor/event/contactEmail/contactEmail';
    const request = { origin: 'https://api.example.com', path: `${event}/sam%40example.com` };
    expect(hideAddresses(request)).toMatchObject({ 'url.path': `${event}/{contactEmail}` });
  });

  it('keeps the host where the path begins with two slashes', () => {
    const request = { origin: 'https://api.example.com', path: `/${path}/sam%40example.com` };
    const full = `https://api.example.com/${path}/{contactEmail}`;
    expect(hideAddresses(request)).toMatchObject({ 'url.full': full });
  });

  it.each(['/event/a?Page=2', '/contactEmails/a', '/contactEmail/'])('leaves %s alone', (other) => {
    expect(hideAddresses({ origin: 'https://api.example.com', path: other })).toEqual({});
  });
});
