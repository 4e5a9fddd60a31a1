import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { ROOT } from './readme.js';

interface Line {
  file: string;
  depth: number;
}

/** The pictures of `docs/architecture.md`, each a list of files. */
const PICTURES: readonly (readonly Line[])[] = [
  ...readFileSync(join(ROOT, 'docs/architecture.md'), 'utf8').matchAll(/^```text\n([^]*?)\n```$/gm),
].map(([, picture = '']) =>
  picture.split('\n').map((line) => {
    const [, indent = '', file = ''] = /^((?: {2})*)(\S+) {2,}\S/.exec(line) ?? [];
    return { file, depth: indent.length / 2 };
  }),
);

/** The nearest line above that is further out. */
function importerOf(picture: readonly Line[], index: number): Line | undefined {
  return picture.slice(0, index).findLast(({ depth }) => depth < (picture[index]?.depth ?? 0));
}

/** Files of `lib/` that a file imports, types included. */
function importsOf(file: string): string[] {
  const folder = dirname(file);
  const text = readFileSync(join(ROOT, 'lib', file), 'utf8');
  return [...text.matchAll(/from '(\.[^']+)\.js'/g)].map(([, path = '']) => join(folder, `${path}.ts`));
}

describe('the pictures of docs/architecture.md', () => {
  it('are those of list(), start and callback of a login, a guarded request, a logout and a token', () => {
    expect(PICTURES.map(([first]) => first?.file)).toEqual([
      'exhibitors/exhibitors.service.ts',
      'nest/exhibitor-login.guard.ts',
      'nest/exhibitor-callback.guard.ts',
      'nest/exhibitor.guard.ts',
      'nest/exhibitor-logout.guard.ts',
      'tokens/token.service.ts',
    ]);
  });

  it('name files that exist, each once in a picture', () => {
    for (const picture of PICTURES) {
      const files = picture.map(({ file }) => file);
      expect(files.filter((file) => !existsSync(join(ROOT, 'lib', file)))).toEqual([]);
      expect(files).toEqual([...new Set(files)]);
    }
  });

  it('go from a file to one that it imports', () => {
    const wrong = PICTURES.flatMap((picture) =>
      picture.flatMap(({ file, depth }, index) => {
        const from = importerOf(picture, index);
        const isRight =
          index === 0
            ? depth === 0
            : from !== undefined && from.depth === depth - 1 && importsOf(from.file).includes(file);
        return isRight ? [] : [`${from?.file} → ${file}`];
      }),
    );
    expect(wrong).toEqual([]);
  });
});
