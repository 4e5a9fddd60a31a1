/**
 * Builds the package into `dist/`.
 *
 *     node scripts/build.mjs            as it is published
 *     node scripts/build.mjs --quick    the package and the sample, one file per module, without types and type check
 */
import { transpile } from './build/transpile.mjs';

if (process.argv.includes('--quick')) {
  transpile('lib', 'dist');
  transpile('sample', 'sample/dist');
} else {
  // TypeScript and the bundler take a second to load.
  const { buildPublished } = await import('./build/published.mjs');
  await buildPublished();
}
