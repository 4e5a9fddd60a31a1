import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { ROOT } from './readme.js';

/** A regular expression in the sources. */
export interface Expression {
  /** File below `lib/`, and the literal. */
  name: string;
  pattern: RegExp;
}

/** The regular expressions of `lib/`, and the places that build one from text. */
export function expressionsOfSources(): { literals: Expression[]; built: string[] } {
  const literals: Expression[] = [];
  const built: string[] = [];
  for (const file of readdirSync(join(ROOT, 'lib'), { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('.ts')) {
      continue;
    }
    const text = readFileSync(join(ROOT, 'lib', file), 'utf8');
    const visit = (node: ts.Node): void => {
      if (ts.isRegularExpressionLiteral(node)) {
        literals.push({ name: `${file} ${node.text}`, pattern: parse(node.text) });
      }
      if ((ts.isNewExpression(node) || ts.isCallExpression(node)) && node.expression.getText() === 'RegExp') {
        built.push(`${file} ${node.getText()}`);
      }
      ts.forEachChild(node, visit);
    };
    visit(ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true));
  }
  return { literals, built };
}

function parse(literal: string): RegExp {
  const end = literal.lastIndexOf('/');
  return new RegExp(literal.slice(1, end), literal.slice(end + 1));
}

/** Searches a text to its end. Without the flag g, that is one search. */
export function findAll(pattern: RegExp, text: string): void {
  pattern.lastIndex = 0;
  while (pattern.test(text) && pattern.global) {
    // The next search starts behind this match.
  }
}
