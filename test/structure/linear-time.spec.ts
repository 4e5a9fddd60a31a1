import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import type * as TypeScript from 'typescript';
import { ExhibitorError } from '../../lib/errors/exhibitor.error.js';
import { checkContactEmail } from '../../lib/model/path-parameters.js';
import { hideSecrets, untrustedText } from '../../lib/model/untrusted-text.js';
import { unverified } from '../../lib/oidc/verify-signature.js';
import { parseJson, UnreadableBody } from '../../lib/http/wire/reply-body.js';
import { nativeRequire } from '../support/native-require.js';
import { ROOT } from './readme.js';

const ts: typeof TypeScript = nativeRequire('typescript');

const SIZE = 256 * 1024;
/** Of the inputs that every expression meets: worse than linear time shows at this length as well. */
const COMMON_SIZE = 32 * 1024;
const LIMIT_MS = 100;

/** The head once, the body as often as it fits, the tail once. */
function long(body: string, head = '', tail = '', size = SIZE): string {
  const count = Math.floor((size - head.length - tail.length) / body.length);
  return head + body.repeat(count) + tail;
}

function common(body: string, head = '', tail = ''): string {
  return long(body, head, tail, COMMON_SIZE);
}

/** Milliseconds of processor time that the work takes, which other processes do not change. */
function timeOf(work: () => unknown): number {
  const began = process.cpuUsage();
  try {
    work();
  } catch (error) {
    if (!(error instanceof ExhibitorError || error instanceof UnreadableBody)) {
      throw error;
    }
  }
  return process.cpuUsage(began).user / 1_000;
}

/** The least time of up to five runs: a pause of the machine is not the work. */
function leastTimeOf(work: () => unknown): number {
  let least = Infinity;
  for (let run = 0; run < 5 && least >= LIMIT_MS; run += 1) {
    least = Math.min(least, timeOf(work));
  }
  return least;
}

function expectLinear(text: string, work: () => unknown): void {
  const ms = leastTimeOf(work);
  // Each call of expect takes longer than most of the work.
  if (ms >= LIMIT_MS) {
    throw new Error(`${JSON.stringify(text.slice(0, 40))}… took ${ms} ms`);
  }
}

/** Inputs that make careless expressions slow, whatever they look for. */
const HOSTILE: readonly string[] = [
  ...['a', 'é', '1', ' ', '\t', '/', '//a', '.', '"', '@', '%', '-', '\\', '<', '?', '=', ';', '+'].flatMap(
    (body) => [common(body, '', '\u0001'), common(body, '\u0001', 'a')],
  ),
  common('-eyJ'),
  common('eyJ.'),
  common('eyJa.a.'),
  common('Bearer '),
  common(' ', 'Bearer'),
  common('a@'),
  common('%2540'),
  common('12:34:56'),
  common('\ud800'),
  common('😀'),
];

/** Made of the words of an expression, which lead to its middle and are repeated there; what follows fits none. */
function hostileTo({ source }: RegExp): string[] {
  const plain = source.replaceAll(/\\[dws]/g, '1').replaceAll(/\(\?:|\\|\?/g, '');
  const words = plain.match(/[a-z\d/:@%"=. -]{2,}/gi) ?? [];
  const heads = new Set(['', ...words, ...(plain.match(/[/:@%"=.-]/g) ?? [])]);
  return [...heads].flatMap((head) =>
    ['a', '1', ' ', ...words, ...words.map((word) => `${word} `)].map((body) =>
      common(body, head, '\u0001\n/#?%x'),
    ),
  );
}

/** Functions that search replies, tokens and claims, with their own worst inputs. A header has 16 KiB at most. */
const FUNCTIONS: Readonly<Record<string, [work: (text: string) => unknown, ...worst: string[]]>> = {
  untrustedText: [(text) => untrustedText(text), long('a@b '), long('a@b.example(')],
  hideSecrets: [
    (text) => hideSecrets(text, ['the secret', 'a'.repeat(256), `id:${'ab'.repeat(300)}`, '"<>%']),
    long('the secret'),
    long('Bearer the secret eyJ'),
  ],
  parseJson: [(text) => parseJson(Buffer.from(text)), long('['), long('{"a":'), long('9')],
  checkContactEmail: [checkContactEmail, long('a', '', '@b'), long('"', '', '"@b'), long('a@')],
  unverified: [(text) => unverified(text, 'header'), long('a.'), long('eyJhbGciOiJSUzI1NiJ9')],
};

/** The regular expressions of `lib/` by file and literal, and the places that build one from text. */
const literals: { name: string; pattern: RegExp }[] = [];
const built: string[] = [];
for (const file of readdirSync(join(ROOT, 'lib'), { recursive: true, encoding: 'utf8' })) {
  const visit = (node: TypeScript.Node): void => {
    if (ts.isRegularExpressionLiteral(node)) {
      const [, source = '', flags] = /^\/(.*)\/(\w*)$/s.exec(node.text) ?? [];
      literals.push({ name: `${file} ${node.text}`, pattern: new RegExp(source, flags) });
    }
    if ((ts.isNewExpression(node) || ts.isCallExpression(node)) && node.expression.getText() === 'RegExp') {
      built.push(`${file} ${node.getText()}`);
    }
    ts.forEachChild(node, visit);
  };
  if (file.endsWith('.ts')) {
    const text = readFileSync(join(ROOT, 'lib', file), 'utf8');
    visit(ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true));
  }
}

/** Searches a text to its end. Without the flag g, that is one search. */
function findAll(pattern: RegExp, text: string): void {
  pattern.lastIndex = 0;
  while (pattern.test(text) && pattern.global) {
    // The next search starts behind this match.
  }
}

describe('the regular expressions of the sources', () => {
  it('are literals: none is built from a text', () => {
    expect(built).toEqual([]);
  });

  it.each(literals)('take linear time: $name', ({ pattern }) => {
    for (const text of [...HOSTILE, ...hostileTo(pattern)]) {
      expectLinear(text, () => findAll(pattern, text));
      expectLinear(text, () => text.replace(pattern, '-'));
    }
  });
});

describe('the functions that meet text from outside', () => {
  it.each(Object.entries(FUNCTIONS))('take linear time: %s', (_name, [work, ...worst]) => {
    for (const text of [...HOSTILE, ...worst]) {
      expectLinear(text, () => work(text));
    }
  });
});

describe('this check', () => {
  // Parts of the text suffice, so that the check itself does not take seconds.
  it.each([
    [/[^\s@<>"'()]+@[^\s@<>"'()]+/g, long('a'), 15_000],
    [/\beyJ[\w-]*\.[\w-]+(?:\.[\w-]*)*/g, long('-eyJ'), SIZE / 9],
    [/\/+$/, long('/'), 16_000],
  ])('finds an expression that is worse than linear: %s', (pattern, text, length) => {
    expect(timeOf(() => findAll(pattern, `${text.slice(0, length)}a`))).toBeGreaterThan(LIMIT_MS);
  });
});
