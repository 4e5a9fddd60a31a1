import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { Eta } from 'eta';

// Templates and assets are not compiled. The compiled sample in `dist/` reads them from the source folder.
const CODE = dirname(dirname(fileURLToPath(import.meta.url)));
const SOURCE = basename(CODE) === 'dist' ? dirname(CODE) : CODE;
const VIEWS = join(SOURCE, 'views');
const ASSETS = join(SOURCE, 'assets');

const numberFormat = new Intl.NumberFormat('en');

/** Functions available in every template. */
const TEMPLATE_FUNCTIONS = {
  /** `1234` → `1,234` */
  formatNumber: (value: number) => numberFormat.format(value),
  /** `1` → `1 exhibitor`, `1234` → `1,234 exhibitors` */
  formatExhibitorCount: (value: number) =>
    `${numberFormat.format(value)} ${value === 1 ? 'exhibitor' : 'exhibitors'}`,
  /** Encodes a value for a path segment or a query parameter. */
  encode: (value: string) => encodeURIComponent(value),
};

/** Renders pages with Eta templates. They escape every value, so that a record cannot inject a script. */
export function useViews(app: NestExpressApplication): void {
  const eta = new Eta({ views: VIEWS, cache: true, autoEscape: true });
  app.setBaseViewsDir(VIEWS);
  app.setViewEngine('eta');
  app.engine('eta', (file: string, model: object, done: (error: unknown, html?: string) => void) => {
    try {
      done(null, eta.render(`./${basename(file, '.eta')}`, { ...TEMPLATE_FUNCTIONS, ...model }));
    } catch (error) {
      done(error);
    }
  });
}

/** Serves style sheets, scripts and images below `/assets/`. */
export function useAssets(app: NestExpressApplication): void {
  app.useStaticAssets(ASSETS, { prefix: '/assets/', index: false, maxAge: '5 minutes' });
}
