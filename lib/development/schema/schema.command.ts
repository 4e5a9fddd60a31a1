import { writeFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { digestOf } from '../../model/digest.js';
import { readTenant, TENANT_FLAGS, tenantHelp } from '../doctor/tenant-flags.js';
import { shapeOf } from './shape.js';
import { LANGUAGES, writeSchema } from './write-schema.js';

export const help = `Usage: nestjs-exhibitor schema --event ID [options]

Reads an event, and writes a schema that accepts the records it has read: their names and types, and no value.

${tenantHelp('schema')}

What to read and write:
  --event ID        The event. Required.
  --pages N         Reads this many pages of 50 records at most. Default: 20.
  --as LANGUAGE     zod (default), for exhibitorSchema, or typescript.
  --out FILE        Writes this file. Default: standard output.

Exit code: 0, or 2 where no schema was written.`;

const text = { type: 'string' } as const;
const FLAGS = { ...TENANT_FLAGS, event: text, pages: text, as: text, out: text } as const;

/** Writes a schema of the records of an event. Resolves with the exit code. */
export async function run(args: string[]): Promise<number> {
  const { values } = parseArgs({ args, options: FLAGS });
  const { event, pages = '20', as = 'zod', out } = values;
  const language = LANGUAGES.get(as);
  require(event !== undefined, '--event names the event to read');
  require(/^[1-9]\d{0,5}$/.test(pages), '--pages must be a whole number from 1 to 999999');
  require(language !== undefined, `--as must be ${[...LANGUAGES.keys()].join(' or ')}`);
  const given = await readTenant(values, 'schema');
  const { records, pages: read } = await readEvent(given, event, Number(pages));
  require(records.length > 0, 'the event has no exhibitors: no schema was written');
  const source = `${records.length} records (${read})`;
  const code = writeSchema(shapeOf(records), language, source);
  if (out === undefined) {
    console.log(code);
    return 0;
  }
  await writeFile(out, `${code}\n`);
  console.log(`${out}: written from ${source}`);
  return 0;
}

function require(holds: boolean, problem: string): asserts holds {
  if (!holds) {
    throw new Error(problem);
  }
}

/** Reads through the module: its deadlines, retries and limits. Options of the host that concern only users or records do not count. */
async function readEvent(
  { tenant, http, allowedOrigins, axios }: Readonly<Record<string, unknown>>,
  eventId: string,
  maxPages: number,
): Promise<{ records: unknown[]; pages: string }> {
  // --help does not need Nest.
  const { NestFactory } = await import('@nestjs/core');
  const { ExhibitorModule, ExhibitorsService } = await import('../../index.js');
  const options = Object({ tenant: { ...Object(tenant), login: undefined }, http, allowedOrigins, axios });
  const module = ExhibitorModule.forRoot(options);
  const context = await NestFactory.createApplicationContext(module, { logger: false, abortOnError: false });
  const showProgress = (line: string): void => {
    if (process.stderr.isTTY) {
      process.stderr.write(`\r\u001b[K${line}`);
    }
  };
  try {
    // Where the event changes during the reading, a record may come twice.
    const records = new Map<string, unknown>();
    let pages = 'no page';
    const reading = context.get(ExhibitorsService).iteratePages(eventId, { maxPages, onDrift: 'ignore' });
    for await (const { data, paginationMetadata } of reading) {
      const { currentPage, totalPages } = paginationMetadata;
      pages = `${currentPage} of ${totalPages} pages`;
      showProgress(`page ${currentPage} of ${Math.min(totalPages, maxPages)}`);
      data.forEach((exhibitor) => records.set(digestOf(JSON.stringify(exhibitor)), exhibitor));
    }
    return { records: [...records.values()], pages };
  } finally {
    showProgress('');
    await context.close();
  }
}
