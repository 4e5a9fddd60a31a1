import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import helmet from 'helmet';
import { AppModule } from './app.module.js';
import { ASSETS } from './folders.js';
import { useViews } from './pages/view-engine.js';
import type { SampleOptions } from './sample-options.js';

/** Builds the portal; `listen` and `close` are the caller's. */
export async function createSample(options: SampleOptions): Promise<NestExpressApplication> {
  const app = await NestFactory.create<NestExpressApplication>(AppModule.register(options), {
    logger: ['warn', 'error', 'fatal'],
    // A page that is watching an event keeps its connection open; closing must not wait for it.
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
          formAction: ["'self'"],
          frameAncestors: ["'none'"],
        },
      },
      // With helmet's own `no-referrer` a browser sends `Origin: null` with our forms, which no longer shows that they are ours.
      referrerPolicy: { policy: 'same-origin' },
    }),
  );
  app.useStaticAssets(ASSETS, { prefix: '/assets/', index: false, maxAge: '5 minutes' });
  useViews(app);
  return app;
}
