import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { INestApplication } from '@nestjs/common';
import { Eta } from 'eta';

/**
 * The source folder of the sample. Templates and assets are not compiled: the compiled sample in `dist/` reads them from
 * the source folder.
 */
export const SOURCE = sourceOf(dirname(dirname(fileURLToPath(import.meta.url))));

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

/** Eta templates. They escape every value, so that a record cannot inject a script. */
export class Views {
  private readonly eta: Eta;

  /** @param extend adds values to the model of a view */
  constructor(
    folder: string,
    private readonly extend: (view: string, model: object) => object,
  ) {
    this.eta = new Eta({ views: join(SOURCE, folder), cache: true, autoEscape: true });
  }

  render(view: string, model: object): string {
    return this.eta.render(`./${view}`, { ...TEMPLATE_FUNCTIONS, ...model, ...this.extend(view, model) });
  }
}

/** Renders the views of `@Render()`, on Express and Fastify. */
export function useViews(app: INestApplication, views: Views): void {
  const adapter = app.getHttpAdapter();
  adapter.render = (response: unknown, view: string, model: object) => {
    const html = views.render(view, model);
    adapter.setHeader(response, 'Content-Type', 'text/html; charset=utf-8');
    return adapter.reply(response, html);
  };
}

function sourceOf(code: string): string {
  return basename(code) === 'dist' ? dirname(code) : code;
}
