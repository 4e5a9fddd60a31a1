import { basename } from 'node:path';
import { Eta } from 'eta';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { VIEWS } from '../folders.js';

const count = new Intl.NumberFormat('en');

/** What every template may call beside its own data. */
const TOOLS = {
  /** 1234 → `1,234` */
  count: (value: number) => count.format(value),
  /** `exhibitor` or `exhibitors` */
  exhibitors: (value: number) => `${count.format(value)} ${value === 1 ? 'exhibitor' : 'exhibitors'}`,
  /** A value as one part of a path or a query. */
  part: (value: string) => encodeURIComponent(value),
};

/** Pages are Eta templates: what they interpolate is escaped, so that a record's name cannot bring a script along. */
export function useViews(app: NestExpressApplication): void {
  const eta = new Eta({ views: VIEWS, cache: true, autoEscape: true });
  app.setBaseViewsDir(VIEWS);
  app.setViewEngine('eta');
  app.engine('eta', (file: string, model: object, done: (error: unknown, html?: string) => void) => {
    try {
      done(null, eta.render(`./${basename(file, '.eta')}`, { ...TOOLS, ...model }));
    } catch (error) {
      done(error);
    }
  });
}
