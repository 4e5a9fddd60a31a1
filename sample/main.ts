import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import helmet from 'helmet';
import { AppModule } from './app.module.js';
import { useAssets, useViews } from './pages/view-engine.js';
import type { SampleOptions } from './sample-options.js';

/** Creates the sample application. The caller calls `listen` and `close`. */
export async function createSample(options: SampleOptions): Promise<NestExpressApplication> {
  const app = await NestFactory.create<NestExpressApplication>(AppModule.register(options), {
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
          formAction: ["'self'", new URL(options.tenantOptions.authUrl).origin],
          frameAncestors: ["'none'"],
        },
      },
      // With helmet's default `no-referrer`, browsers send `Origin: null` with forms of this origin. The origin check of
      // logout and selection then rejects them if the browser sends no `Sec-Fetch-Site`.
      referrerPolicy: { policy: 'same-origin' },
    }),
  );
  useAssets(app);
  useViews(app);
  return app;
}
