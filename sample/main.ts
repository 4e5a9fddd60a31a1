import type { INestApplication } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import helmet from 'helmet';
import { AppModule } from './app.module.js';
import { useViews, Views } from './pages/views.js';
import type { SampleOptions } from './sample-options.js';
import { Tour } from './tour/tour.js';

/** Creates the sample application on Express or Fastify. The caller calls `listen` and `close`. */
export async function createSample(
  options: SampleOptions,
  platform: 'express' | 'fastify' = 'express',
): Promise<INestApplication> {
  const tour = new Tour(options);
  const views = new Views('views', tour.extend);
  const app = await NestFactory.create(AppModule.register(options, tour, views), await adapterOf(platform), {
    logger: ['warn', 'error', 'fatal'],
    // A live list keeps its connection open. `close` must not wait for it.
    forceCloseConnections: true,
    abortOnError: false,
  });
  app.use(
    helmet({
      contentSecurityPolicy: {
        useDefaults: false,
        directives: {
          defaultSrc: ["'self'"],
          objectSrc: ["'none'"],
          baseUri: ["'none'"],
          // The logout form leads to the provider. Chromium applies this to redirects too.
          formAction: [
            "'self'",
            ...Object.values(options.tenants).map(({ authUrl }) => new URL(authUrl).origin),
          ],
          frameAncestors: ["'none'"],
        },
      },
      // With helmet's default `no-referrer`, browsers send `Origin: null` with forms of this origin. The origin check of
      // logout and selection then rejects them if the browser sends no `Sec-Fetch-Site`.
      referrerPolicy: { policy: 'same-origin' },
    }),
  );
  app.use(tour.middleware);
  useViews(app, views);
  return app;
}

/** Loads only the adapter that is used. */
async function adapterOf(platform: 'express' | 'fastify') {
  if (platform === 'express') {
    const { ExpressAdapter } = await import('@nestjs/platform-express');
    return new ExpressAdapter();
  }
  const { FastifyAdapter } = await import('@nestjs/platform-fastify');
  return new FastifyAdapter({
    forceCloseConnections: true,
    routerOptions: { ignoreTrailingSlash: true },
    // Fastify answers an address that cannot be decoded with JSON, before any filter. Here it is a page that does not exist.
    rewriteUrl: ({ url = '/' }) => (isDecodable(url) ? url : '/malformed'),
  });
}

function isDecodable(url: string): boolean {
  try {
    decodeURI(url);
    return true;
  } catch {
    return false;
  }
}
