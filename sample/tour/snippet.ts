import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { SOURCE } from '../pages/views.js';

const cache = new Map<string, string>();

/** The code of a method with its decorators, and those of its class, as they are in the file. */
export function snippetOf(file: string, method: string): string {
  const key = `${file} ${method}`;
  const snippet = cache.get(key) ?? readSnippet(readFileSync(join(SOURCE, file), 'utf8').split('\n'), method);
  cache.set(key, snippet);
  return snippet;
}

function readSnippet(lines: readonly string[], method: string): string {
  const ofClass = lines.findIndex((line) => line.startsWith('export class '));
  const ofMethod = lines.findIndex((line) => new RegExp(`^  [a-z ]*\\b${method}\\(`).test(line));
  const end = lines.indexOf('  }', ofMethod);
  if (ofClass < 0 || ofMethod < 0 || end < 0) {
    throw new Error(`there is no method ${method}`);
  }
  const head = lines.slice(firstDecorator(lines, ofClass), ofClass + 1);
  return [...head, '  // …', ...lines.slice(firstDecorator(lines, ofMethod), end + 1)].join('\n');
}

/** Index of the first of the decorators above a line. */
function firstDecorator(lines: readonly string[], below: number): number {
  const above = lines.slice(0, below).findLastIndex((line) => !/^ *@/.test(line));
  return above + 1;
}
