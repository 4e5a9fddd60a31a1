import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Root of the repository. */
export const ROOT = join(import.meta.dirname, '../..');

/** The README and the pages of `docs/`. */
const DOCS = readdirSync(join(ROOT, 'docs')).filter((name) => name.endsWith('.md'));
export const PAGES = ['README.md', ...DOCS.map((name) => `docs/${name}`)];

export function readPage(page: string): string {
  return readFileSync(join(ROOT, page), 'utf8');
}

/** The TypeScript snippets of a page. */
export function snippetsOf(page: string): string[] {
  return [...readPage(page).matchAll(/```ts\n([\s\S]*?)```/g)].map(([, code = '']) => code);
}

/** The snippets of a page that follow the comment `<!-- name -->`. */
export function namedSnippets(page: string, name: string): [string, ...string[]] {
  const snippet = new RegExp(
    `<!-- ${name} -->\\s*(?:<!-- prettier-ignore -->\\s*)?\`\`\`\\w+\\n([\\s\\S]*?)\`\`\``,
    'g',
  );
  const [first, ...others] = [...readPage(page).matchAll(snippet)].map(([, code = '']) => code);
  if (first === undefined) {
    throw new Error(`${page} has no ${name}`);
  }
  return [first, ...others];
}

type HostFile = [path: string, code: string];

/** The files of a host that a page shows, by path. */
export function filesOf(page: string): HostFile[] {
  const file = /<!-- host: (\S+) -->[\s\S]*?```ts\n([\s\S]*?)```/g;
  return [...readPage(page).matchAll(file)].map(([, path = '', code = '']): HostFile => [path, code]);
}

/** The files of the complete host of the README, by path. */
export function hostFiles(): HostFile[] {
  const files = filesOf('README.md');
  if (files.length === 0) {
    throw new Error('the README has no host');
  }
  return files;
}

/**
 * The snippets that create a store, for `redis` and for `ioredis`.
 *
 * @param major of the clients; the newest where it is empty
 */
export function storeSnippets(major: '5' | '' = ''): string[] {
  return namedSnippets('docs/scaling.md', 'redis').map((code) =>
    code.replace(/from '((?:io)?redis)'/, `from '$1${major}'`),
  );
}

/** The Jest settings of CommonJS hosts. */
export function jestSettings(): { preset: string } {
  return JSON.parse(namedSnippets('docs/testing.md', 'jest')[0]) as { preset: string };
}

/** The command of the README that installs the package, with the peers that an application on a major of Nest does not have. */
export function readmeInstall(nest: 11 | 12): string[] {
  const [, install = ''] = readPage('README.md').split('\n## Install\n');
  const commands = [...install.matchAll(/```sh\n(.*)\n```/g)].map(([, command = '']) => command.split(' '));
  return commands[nest === 11 ? 1 : 0] ?? [];
}

/** The command that installs what the sandbox needs. */
export function sandboxInstall(): string[] {
  return /`(npm install --save-dev oidc-provider)`/.exec(readPage('docs/testing.md'))?.[1]?.split(' ') ?? [];
}
