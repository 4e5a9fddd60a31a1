import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import ts from 'typescript';
import { ROOT } from './readme.js';

/** Files whose members hosts write, or read in an editor. */
const FILES = [
  'config/exhibitor-options.interface.ts',
  'config/tenant-options.interface.ts',
  'exhibitors/call-options.interface.ts',
  'login/login.interface.ts',
  'nest/login-routes.ts',
  'nest/page-view.ts',
];

/** Members of types, also of nested ones, above which there is no doc comment. */
function undocumented(file: string, text: string): string[] {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest);
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    const above = ts.getLeadingCommentRanges(text, node.getFullStart()) ?? [];
    if (ts.isPropertySignature(node) && !above.some(({ pos }) => text.startsWith('/**', pos))) {
      found.push(node.name.getText(source));
    }
    node.forEachChild(visit);
  };
  source.statements
    .filter((one) => ts.isInterfaceDeclaration(one) || ts.isTypeAliasDeclaration(one))
    .forEach(visit);
  return found;
}

describe('the options', () => {
  it.each(FILES)('of %s have a doc comment each, which editors show', (file) => {
    const missing = undocumented(file, readFileSync(join(ROOT, 'lib', file), 'utf8'));
    // Absent, where the other one is given.
    expect(missing.filter((name) => name !== 'tenant' && name !== 'tenants')).toEqual([]);
  });

  it('are looked through, nested ones too', () => {
    const text = 'interface A {\n/** One. */ a: 1;\n b?: { c: 1 } | false;\n /* no doc comment */ d: 1 }';
    expect(undocumented('a.ts', text)).toEqual(['b', 'c', 'd']);
  });
});
