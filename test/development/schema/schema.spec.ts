import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import fc from 'fast-check';
import type * as TypeScript from 'typescript';
import { z, type ZodType } from 'zod';
import { run } from '../../../lib/development/schema/schema.command.js';
import { shapeOf } from '../../../lib/development/schema/shape.js';
import { LANGUAGES, writeSchema } from '../../../lib/development/schema/write-schema.js';
import { startService, wrapper, type Answer } from '../../exhibitors/rest-host.js';
import { useSandbox } from '../../support/lifetimes.js';
import { ROOT } from '../../structure/readme.js';
import { nativeRequire } from '../../support/native-require.js';

const ts: typeof TypeScript = nativeRequire('typescript');

/** A part of each value of a record that is no format: no schema may show it. */
const SECRET = 'kept';
const ADDRESS = 'olga.one@example.com';
const NOTE = '// holds addresses: leave it out of pages';

const sandbox = await useSandbox();

function codeOf(records: readonly unknown[], language = 'zod'): string {
  const to = LANGUAGES.get(language);
  if (to === undefined) {
    throw new Error(language);
  }
  return writeSchema(shapeOf(records), to, `${records.length} records`);
}

/** The schema that this code exports. */
function schemaOf(code: string): ZodType {
  const body = code
    .replace(/^import .*|^export type .*/gm, '')
    .replace('export const exhibitorSchema =', 'return');
  // oxlint-disable-next-line no-new-func, typescript/no-implied-eval -- it is what a host imports
  return new Function('z', body)(z) as ZodType;
}

function refusedBy(code: string, records: readonly unknown[]): unknown[] {
  const schema = schemaOf(code);
  return records.filter((record) => !schema.safeParse(record).success);
}

/** Errors of the compiler under its strictest settings, for files by name. */
function problemsOf(files: Record<string, string>): string[] {
  const folder = mkdtempSync(join(ROOT, 'test', '.readme-'));
  try {
    const names = Object.entries(files).map(([name, code]) => {
      writeFileSync(join(folder, name), code);
      return join(folder, name);
    });
    const program = ts.createProgram(names, {
      strict: true,
      exactOptionalPropertyTypes: true,
      noUncheckedIndexedAccess: true,
      noPropertyAccessFromIndexSignature: true,
      noUnusedLocals: true,
      verbatimModuleSyntax: true,
      isolatedModules: true,
      erasableSyntaxOnly: true,
      declaration: true,
      noEmit: true,
      skipLibCheck: true,
      types: [],
      target: ts.ScriptTarget.ES2022,
      module: ts.ModuleKind.NodeNext,
    });
    const all = ts.getPreEmitDiagnostics(program);
    return all.map(
      ({ messageText, file }) => `${file?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, '\n')}`,
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const ODD_NAMES = [
  'a-b',
  '',
  '1',
  '"',
  "it's",
  '\\',
  '*/',
  '\u2028',
  '\u202e',
  '\ud800',
  'a\nb',
  'constructor',
  '__proto__',
  'ü',
  'class',
];
// Those of fast-check take half of the time of this file.
const email = fc.nat().map((at) => `a.${at}+b@x-${at % 9}.example.com`);
const url = fc.nat().map((at) => `https://${at}.example.com:8080/${at % 7}?a=b#c`);
const text = fc.oneof(
  fc.string().map((end) => `${SECRET}${end}`),
  fc.constantFrom(
    '',
    '2026-02-28',
    '2026-02-30',
    '2024-02-29T23:59:59Z',
    '2026-01-01T00:00:00.5-05:30',
    '2026-01-01T10:00:00',
  ),
  fc.constantFrom(
    '9f0b4b1e-0d5c-4d5e-8b1e-0d5c4d5e8b1e',
    'https://example.com/a b',
    'http://a',
    'ftp://a',
    "a'@b.de",
    ADDRESS,
  ),
  email,
  fc.uuid(),
);
const scalar = fc.oneof(text, fc.double({ noNaN: true }), fc.integer(), fc.boolean(), fc.constant(null));
const { value } = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    scalar,
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(fc.oneof(fc.constantFrom(...ODD_NAMES), fc.constantFrom('x', 'y')), tie('value'), {
      maxKeys: 4,
    }),
  ),
}));
/** Members of one kind each, which are missing or null at times, and others of any kind. */
const record = fc
  .record(
    {
      id: fc.uuid(),
      name: text,
      founded: fc.option(fc.date({ noInvalidDate: true }).map((date) => date.toJSON())),
      web: fc.option(url),
      people: fc.array(fc.record({ email: email, phone: text }, { requiredKeys: ['email'] })),
      halls: fc.dictionary(fc.string(), fc.integer(), { maxKeys: 3 }),
      'e-mails': fc.dictionary(email, scalar, { maxKeys: 2 }),
      any: value,
      ...Object.fromEntries(ODD_NAMES.map((name) => [`${name} `, scalar])),
    },
    { requiredKeys: ['id', 'name'] },
  )
  // As they come from the service.
  .map((members): unknown => JSON.parse(JSON.stringify(members)));

describe('what was written', () => {
  it('accepts every record that was read', () => {
    const values = fc.array(fc.oneof(record, value), { minLength: 1, maxLength: 20 });
    const accepts = (records: unknown[]): void => expect(refusedBy(codeOf(records), records)).toEqual([]);
    fc.assert(fc.property(values, accepts), { numRuns: 60 });
  });

  it('compiles under the strictest settings, with names that are no identifiers and nested deeply', () => {
    const odd = JSON.parse(`{${ODD_NAMES.map((name) => `${JSON.stringify(name)}:1`).join()}}`);
    const deep = Array.from({ length: 30 }).reduce<unknown>((inner) => ({ in: [inner, null] }), {});
    const samples: Record<string, unknown[]> = {
      // Of literals in a list, TypeScript takes the `constructor` that all inherit for a member.
      plain: fc.sample(record, { numRuns: 20, seed: 55 }).map((one) => {
        return JSON.parse(
          JSON.stringify(one).replaceAll('"constructor"', '"x"').replaceAll('"__proto__"', '"y"'),
        );
      }),
      odd: [{ id: 1, odd, deep }, { id: 2, odd: null }, { id: 3 }],
      constructor: [
        { id: 1, constructor: 'a', toString: 1 },
        { id: 2, constructor: 'b', toString: null },
      ],
    };
    const files = Object.entries(samples).flatMap(([name, records]) => {
      const use = `const read = ${JSON.stringify(records)};\nexport const all: readonly Exhibitor[] = read;`;
      return [...LANGUAGES.keys()].map((language) => [
        `${name}.${language}.ts`,
        `${codeOf(records, language)}\n${use}`,
      ]);
    });
    expect(problemsOf(Object.fromEntries(files))).toEqual([]);
    // A name may not end a comment or reverse what a reader sees.
    expect(codeOf(ODD_NAMES.slice(0, 9).flatMap((name) => [{ [name]: 1 }]))).not.toMatch(/[\u2028\u202e]/);
  });

  it('tells optional from null, and names what is mixed, always null or always empty', () => {
    const records = [
      { id: 'a', both: null, none: null, mixed: 1, tags: [], of: { hall: 1 }, dates: ['2026-01-01', null] },
      { id: 'b', both: 'x', none: null, mixed: ['x'], tags: [], of: { hall: 2.5, booth: '2' }, dates: [] },
      { id: 'c', none: null, mixed: null, tags: [], of: { hall: 0 }, dates: [] },
    ];
    expect(codeOf(records))
      .toBe(`// Written by nestjs-exhibitor schema from 3 records. Others may differ: loosen what they do not fit.
// Unique in all of them, candidates for exhibitorId and exhibitorLabel: id
import { z } from 'zod';

export const exhibitorSchema = z.object({
  id: z.string(),
  both: z.string().nullable().optional(),
  none: z.unknown(), // always null
  mixed: z.unknown(), // mixed: number, list
  tags: z.array(z.unknown()), // always empty
  of: z.object({
    hall: z.number(),
    booth: z.string().optional(),
  }),
  dates: z.array(z.iso.date().nullable()),
});

export type Exhibitor = z.infer<typeof exhibitorSchema>;`);
    expect(codeOf(records, 'typescript')).toContain(`export type Exhibitor = {
  id: string;
  both?: string | null;
  none: unknown; // always null
  mixed: unknown; // mixed: number, list
  tags: Array<unknown>; // always empty
  of: {
    hall: number;
    booth?: string;
  };
  dates: Array<string | null>; // date
};`);
  });

  it.each([
    [
      'date-time',
      'z.iso.datetime({ offset: true, local: true })',
      ['2026-02-28T10:00:00Z', '2024-02-29T10:00:00.123+01:00', '2026-01-01T10:00:00'],
    ],
    ['date', 'z.iso.date()', ['2026-02-28', '2024-02-29']],
    ['url', 'z.url()', ['https://example.com', 'http://münchen.example/a?b#c']],
    ['uuid', 'z.uuid()', ['9f0b4b1e-0d5c-4d5e-8b1e-0d5c4d5e8b1e']],
    ['email', 'z.email()', ['olga.one@example.com']],
    ['date', 'z.string()', ['2026-02-28', '2026-02-30']],
    ['date', 'z.string()', ['2026-02-28', '']],
    ['date-time', 'z.string()', ['2026-02-28T10:00:00Z', '2026-02-30T10:00:00Z']],
    ['url', 'z.string()', ['https://example.com', 'www.example.com']],
    ['url', 'z.string()', ['https://example.com:99999']],
    ['numbers', 'z.number()', [1, 2.5]],
    ['numbers beyond the range', 'z.unknown()', [JSON.parse('1e999')]],
  ])('%s: %s for %j', (_, type, values) => {
    expect(codeOf(values.map((member) => ({ member })))).toContain(`  member: ${type},`);
  });

  it('names the members that identify a record, in its objects as well, and none that holds addresses', () => {
    const records = Array.from({ length: 20 }, (_, at) => ({
      at,
      key: { no: `x-${at}`, 'old no': at },
      email: `${at}@example.com`,
      name: at > 0 ? `N ${at}` : null,
      half: at / 2,
      list: [at],
      // Equal as an id, which is text.
      twice: at === 1 ? '0' : at,
    }));
    expect(codeOf(records)).toContain('exhibitorLabel: at, key.no, key."old no"\n');
    expect(codeOf(records.slice(0, 1))).toContain('exhibitorLabel: none\n');
  });
});

describe('no value of a record is written', () => {
  it('whatever the records are', () => {
    const records = fc.sample(record, { numRuns: 300, seed: 55 });
    for (const language of LANGUAGES.keys()) {
      expect(codeOf(records, language)).not.toMatch(/kept|@|example\.|9f0b4b1e/);
    }
  });

  it('nor names that are values: more than 50, or with an address', () => {
    const byId = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, at) => [`id${at}`, { at }]));
    const one = {
      few: byId(50),
      many: byId(51),
      people: { [ADDRESS]: 1 },
      encoded: { 'a%40b.example': [ADDRESS] },
    };
    const other = { few: byId(50), many: { more: { at: null, by: ADDRESS } }, people: {}, encoded: {} };
    const code = codeOf([one, other]);
    expect(code).toContain('id49');
    expect(code).toContain(`  many: z.record(z.string(), z.object({
    at: z.number().nullable(),
    by: z.email().optional(), ${NOTE}
  })),
  people: z.record(z.string(), z.number()), ${NOTE}
  encoded: z.record(z.string(), z.array(z.email())), ${NOTE}
`);
    expect(code).not.toMatch(/id50|@|%40/);
    // Of a whole record as well.
    expect(codeOf([byId(51)])).toContain('exhibitorSchema = z.record(z.string(), z.object({\n');
  });

  it.each([
    ['a text', [`Call Olga <${ADDRESS}>`]],
    ['an encoded one', ['https://example.com/?to=olga%40example.com']],
    ['one of another script', ['ölga@müller.example']],
    ['one with a rare character', ['olga!@müller.example']],
    ['a member of mixed kinds', [1, [{ x: ADDRESS }]]],
    ['a list of lists', [[[ADDRESS]]]],
  ])('%s with an address is named', (_, values) => {
    const code = codeOf(values.map((member) => ({ member, 'other member': 'https://example.com/@olga' })));
    expect(code).toMatch(/^ {2}member: .*holds addresses: leave it out of pages$/m);
    expect(code).toMatch(/^ {2}"other member": z\.url\(\),$/m);
  });
});

describe('the command', () => {
  const folder = mkdtempSync(join(tmpdir(), 'exhibitor-schema-'));
  const lines: string[] = [];
  const progress: string[] = [];
  const { isTTY } = process.stderr;
  beforeEach(() => {
    lines.length = 0;
    progress.length = 0;
    process.stderr.isTTY = true;
    jest.spyOn(console, 'log').mockImplementation((line: string) => void lines.push(line));
    jest.spyOn(process.stderr, 'write').mockImplementation((line) => progress.push(String(line)) > 0);
  });
  afterEach(() => {
    jest.restoreAllMocks();
    process.stderr.isTTY = isTTY;
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  /** Runs it against a service with these replies. */
  async function runAgainst(answer: Answer, ...args: string[]): Promise<{ code: number; pages: number }> {
    const service = await startService(answer);
    try {
      const config = join(folder, 'tenant.json');
      writeFileSync(config, JSON.stringify({ ...service.tenant, http: { attempts: 1 } }));
      return { code: await run(['--config', config, '--event', 'e', ...args]), pages: service.urls.length };
    } finally {
      await service.stop();
    }
  }

  /** The pages of an event. */
  const pagesOf =
    (records: readonly unknown[]): Answer =>
    ({ page }) => ({
      ...wrapper(page, 0, records.length),
      data: records.slice((page - 1) * 50, page * 50),
    });

  it('reads 5,000 records of changing shape, shows where it is, and writes a file that accepts them', async () => {
    const shapes = fc.sample(record, { numRuns: 60, seed: 5_000 });
    const records = Array.from({ length: 5_000 }, (_, at) => ({
      ...Object(shapes[at % 60]),
      id: `x-${at}`,
    }));
    const out = join(folder, 'exhibitor.schema.ts');
    expect(await runAgainst(pagesOf(records), '--pages', '200', '--out', out)).toEqual({
      code: 0,
      pages: 100,
    });
    const code = readFileSync(out, 'utf8');
    expect(refusedBy(code, records)).toEqual([]);
    expect(code).not.toMatch(/kept|@/);
    expect(code.endsWith(';\n')).toBe(true);
    expect(lines).toEqual([`${out}: written from 5000 records (100 of 100 pages)`]);
    expect(progress).toContain('\r\u001b[Kpage 7 of 100');
    expect(progress.at(-1)).toBe('\r\u001b[K');
  });

  it('reads 20 pages without --pages, and prints nothing but code where there is no terminal', async () => {
    process.stderr.isTTY = false;
    const records = Array.from({ length: 1_250 }, (_, at) => ({ id: at }));
    expect(await runAgainst(pagesOf(records), '--as', 'typescript')).toMatchObject({ code: 0 });
    expect(lines.join('\n')).toContain('from 1000 records (20 of 25 pages)');
    expect(lines.join('\n')).toContain('export type Exhibitor = {\n  id: number;\n};');
    expect(progress).toEqual([]);
  });

  it('takes an event that changes during the reading, whose records come twice', async () => {
    const records = Array.from({ length: 120 }, (_, at) => ({ id: `x-${at}`, hall: 1 }));
    // An exhibitor is added in front once page 1 was read.
    const drifting: Answer = ({ page }) =>
      pagesOf(page === 1 ? records : [{ id: 'x-new', hall: 'new' }, ...records])({ page } as never);
    expect(await runAgainst(drifting)).toMatchObject({ code: 0 });
    expect(lines.join('\n')).toContain('exhibitorLabel: id\n');
  });

  it('leaves a file as it was where the event has no exhibitors', async () => {
    const out = join(folder, 'old.ts');
    writeFileSync(out, 'old');
    await expect(runAgainst(pagesOf([]), '--out', out)).rejects.toThrow('has no exhibitors');
    expect([readFileSync(out, 'utf8'), lines]).toEqual(['old', []]);
  });

  it.each([
    ['an error of the service', () => ({ message: SECRET }), /^not a page/],
    [
      'a record that is none',
      ({ page }: { page: number }) => ({ ...wrapper(page, 0, 1), data: [SECRET] }),
      /^data/,
    ],
  ])('quotes no reply in %s', async (_, answer, message) => {
    const failed = await runAgainst(answer).catch((error: unknown) => error);
    expect(failed).toMatchObject({ code: 'malformed_response', message: expect.stringMatching(message) });
    expect(String(failed)).not.toContain(SECRET);
  });

  it.each([
    [['--pages', '3'], '--event'],
    [['--event', 'e', '--pages', '0'], '--pages'],
    [['--event', 'e', '--pages', 'all'], '--pages'],
    [['--event', 'e', '--as', 'valibot'], '--as must be zod or typescript'],
    [['--event', 'e'], 'API_CLIENT_SECRET'],
  ])('cannot run with %j', async (args, message) => {
    await expect(run(args)).rejects.toThrow(message);
  });
});

describe('the sandbox', () => {
  it('is read by the variables of its hosts', async () => {
    const before = { ...process.env };
    const print = jest.spyOn(console, 'log').mockImplementation(() => undefined);
    try {
      Object.assign(process.env, sandbox.environment('acme'));
      expect(await run(['--event', 'world-2026'])).toBe(0);
    } finally {
      process.env = before;
      jest.restoreAllMocks();
    }
    expect(print.mock.calls).toEqual([
      [expect.stringContaining('  contactEmails: z.array(z.string()), // holds addresses')],
    ]);
  });
});
