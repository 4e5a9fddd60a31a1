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
import { isRecord } from '../../lib/model/json-values.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { honest, startRestHost, startService } from '../exhibitors/rest-host.js';
import { signIn } from '../guards/signed-in.js';
import { leaksOf } from '../setup/leaks.js';
import { MemoryStore } from '../store/memory-store.js';
import { COOKIE_SECRET, startHost } from '../support/host.js';
import { startSandbox } from '../support/sandbox.js';
import { loadSnippets } from '../support/snippets.js';

const CHANNELS = ['request', 'token', 'lookup', 'login', 'store', 'drift'];

/** What the snippets of the page export. */
interface Recipes {
  undiciInstrumentation: UndiciInstrumentation;
  observeExhibitors(): void;
}

describe('the recipes of docs/observability.md', () => {
  const spans = new InMemorySpanExporter();
  const measured = new InMemoryMetricExporter(AggregationTemporality.DELTA);
  const tracing = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] });
  const metering = new MeterProvider({
    readers: [new PeriodicExportingMetricReader({ exporter: measured, exportIntervalMillis: 3_600_000 })],
  });
  const tracer = tracing.getTracer('host');
  let sandbox: ExhibitorSandbox;
  let recipe: UndiciInstrumentation;

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
    const { undiciInstrumentation, observeExhibitors } = await loadSnippets<Recipes>(
      'observability.md',
      'tracing',
      'metrics',
    );
    recipe = undiciInstrumentation;
    observeExhibitors();
    listeners.forEach((listener, name) => subscribe(name, listener));
    sandbox = await startSandbox();
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
  });
  afterAll(async () => {
    listeners.forEach((listener, name) => unsubscribe(name, listener));
    recipe?.disable();
    await sandbox?.stop();
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

  /** The sums of a counter, and the counts of a histogram, by their attributes. */
  const pointsOf = (name: string) =>
    measured
      .getMetrics()
      .flatMap(({ scopeMetrics }) => scopeMetrics)
      .flatMap((scope) => scope.metrics)
      .filter(({ descriptor }) => descriptor.name === name)
      .flatMap<DataPoint<unknown>>(({ dataPoints }) => dataPoints)
      .map(({ attributes, value }) => ({
        ...attributes,
        count: isRecord(value) ? value['count'] : value,
      }));

  it.each(['sam.several@example.com', 'zoë+fair@example.com'])(
    'keep %s out of the span of a lookup',
    async (email) => {
      const lookup = async (): Promise<void> => {
        spans.reset();
        const host = await startRestHost({ tenant: sandbox.tenantOptions('acme') });
        await firstValueFrom(host.exhibitors.lookup('world-2026', email));
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
      const [ofChannel, ofUndici] = ['exhibitor lookup', 'GET'].map(
        (name) => exported().find((span) => span.name === name)?.attributes,
      );
      const path = ofChannel?.['template'];
      expect(ofUndici).toMatchObject({
        'url.template': path,
        'url.path': path,
        'url.full': `${sandbox.url}${path}`,
      });
    },
  );

  /** A span of each request to a host, as instrumentations of HTTP servers begin it. */
  function traceRequest(
    { originalUrl }: { originalUrl: string },
    response: ServerResponse,
    next: () => void,
  ): void {
    within(originalUrl.split('?')[0] ?? '', (end) => {
      response.once('close', end);
      next();
    });
  }

  describe.each(['express', 'fastify'] as const)('in a host on %s', (kind) => {
    const [first, second, other, failing] = [
      '/events/world-2026/mine',
      '/events/world-2026/booth',
      '/events/national-2026/mine',
      '/events/regional-2026/mine',
    ] as const;

    async function runHost(): Promise<void> {
      const host = await startHost({
        kind,
        configure: (app) => app.use(traceRequest),
        options: (redirectUri) => ({
          tenant: sandbox.tenantOptions('acme', { redirectUri }),
          secrets: [COOKIE_SECRET],
          store: new MemoryStore(),
        }),
      });
      const sam = await signIn(sandbox, host);
      // The three wait for one token, two of them for one lookup.
      sandbox.latency = 100;
      await Promise.all([first, second, other].map((path) => sam.visit(`${host.url}${path}`)));
      sandbox.latency = 0;
      sandbox.failNext('lookup', { kind: 'status', status: 503 });
      await sam.visit(`${host.url}${failing}`);
      await sam.visit(`${host.url}/mine?eventId=world-2026`);
      await host.close();
      await metering.forceFlush();
    }

    it('publish in the context of the request, send traceparent, and count', async () => {
      await runHost();
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
      expect(
        whereWas('request lookup')
          .filter((where) => where !== second && where !== first)
          .toSorted(),
      ).toEqual([other, failing, failing]);
      expect(whereWas('request lookup')).toHaveLength(4);

      const wire = spans.getFinishedSpans().filter(({ name }) => name === 'GET' || name === 'POST');
      const sent = sandbox.requests.filter(
        ({ operation }) => operation === 'token' || operation === 'lookup',
      );
      expect(sent).toHaveLength(6);
      expect(sent.map(({ headers }) => headers['traceparent']).toSorted()).toEqual(
        wire.map((span) => `00-${span.spanContext().traceId}-${span.spanContext().spanId}-01`).toSorted(),
      );
      expect(wire.filter(({ parentSpanContext }) => !spanNames.has(parentSpanContext?.spanId))).toEqual([]);

      expect(pointsOf('exhibitor.token')).toEqual(
        ['fetched', 'shared', 'hit'].map((outcome) => ({ tenant: 'default', outcome, count: 1 })),
      );
      expect(pointsOf('exhibitor.request.duration')).toContainEqual({
        tenant: 'default',
        operation: 'lookup',
        template: '/api/v1/exhibitor/event/{eventId}/contactEmail/{contactEmail}',
        attempt: 1,
        status: 503,
        code: 'service_unavailable',
        count: 1,
      });
      expect(exported()).toContainEqual(
        expect.objectContaining({
          name: 'exhibitor lookup',
          status: { code: 2, message: 'service_unavailable' },
        }),
      );
      expect(exported().find(({ name }) => name === '/mine')?.events).toContainEqual(
        expect.objectContaining({
          name: 'exhibitor.lookup',
          attributes: { tenant: 'default', outcome: 'hit' },
        }),
      );
      expect(leaksOf([exported(), measured.getMetrics()])).toEqual([]);
    });
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
    await metering.forceFlush();
    expect(whereWas('request list').length).toBeGreaterThan(4);
    expect(new Set(published.map(({ where }) => where))).toEqual(new Set(['reading']));
    expect(pointsOf('exhibitor.drift')).toContainEqual({
      tenant: 'default',
      field: 'totalCount',
      count: expect.any(Number),
    });
  });
});
