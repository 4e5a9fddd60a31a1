import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Root of the repository. */
export const ROOT = join(import.meta.dirname, '../..');

const README = readFileSync(join(ROOT, 'README.md'), 'utf8');

/** The TypeScript snippets of the README and of the pages in `docs/`. */
export function readmeSnippets(): string[] {
  const docs = join(ROOT, 'docs');
  const pages = readdirSync(docs).map((name) => readFileSync(join(docs, name), 'utf8'));
  return [README, ...pages].flatMap((page) =>
    [...page.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, code = '']) => code),
  );
}

/** The complete host of the README. */
export function readmeHost(): string {
  const code = /<!-- host -->\s*<!-- prettier-ignore -->\s*```ts\n([\s\S]*?)```/.exec(README)?.[1];
  if (code === undefined) {
    throw new Error('the README has no host');
  }
  return code;
}

/** The test of the README after the comment `<!-- name -->`. */
export function readmeTest(name: 'unit test' | 'end-to-end test'): string {
  const code = new RegExp(`<!-- ${name} -->\\s*\`\`\`ts\\n([\\s\\S]*?)\`\`\``).exec(README)?.[1];
  if (code === undefined) {
    throw new Error(`the README has no ${name}`);
  }
  return code;
}

/** The recipe of docs/reading-events.md that keeps a copy of an event. */
export function syncRecipe(): string {
  const page = readFileSync(join(ROOT, 'docs/reading-events.md'), 'utf8');
  const code = /<!-- sync -->\s*```ts\n([\s\S]*?)```/.exec(page)?.[1];
  if (code === undefined) {
    throw new Error('docs/reading-events.md has no recipe');
  }
  return code;
}

/**
 * The snippets of the README that create a store, for `redis` and for `ioredis`.
 *
 * @param major of the clients; the newest where it is empty
 */
export function readmeStores(major: '5' | '' = ''): string[] {
  return [...README.matchAll(/<!-- redis -->\s*```ts\n([\s\S]*?)```/g)].map(([, code = '']) =>
    code.replace(/from '((?:io)?redis)'/, `from '$1${major}'`),
  );
}

/** The Jest settings the README gives to CommonJS hosts. */
export function readmeJest(): { preset: string } {
  const json = /### Jest in a CommonJS host[\s\S]*?```json\n([\s\S]*?)```/.exec(README)?.[1] ?? '{}';
  return JSON.parse(json) as { preset: string };
}

/** The command of the README that installs the package, with the peers that an application on a major of Nest does not have. */
export function readmeInstall(nest: 11 | 12): string[] {
  const [, install = ''] = README.split('\n## Install\n');
  const commands = [...install.matchAll(/```sh\n(.*)\n```/g)].map(([, command = '']) => command.split(' '));
  return commands[nest === 11 ? 1 : 0] ?? [];
}

/** The command that installs what the sandbox needs. */
export function readmeSandboxInstall(): string[] {
  return /`(npm install --save-dev oidc-provider)`/.exec(README)?.[1]?.split(' ') ?? [];
}

export { README };
