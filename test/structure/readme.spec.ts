import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { HTTP_STATUS_BY_CODE } from '../../lib/index.js';
import { moduleSchema } from '../../lib/config/exhibitor-settings.js';
import { moduleHttpSchema, loginSchema, tenantSchema } from '../../lib/config/tenant-settings.js';
import { PAGES, readPage, ROOT } from './readme.js';

describe('the README', () => {
  it('has 320 lines at most', () => {
    expect(readPage('README.md').split('\n').length - 1).toBeLessThanOrEqual(320);
  });

  it('names every error code with its status', () => {
    const documented = [...readPage('docs/errors.md').matchAll(/^\| `([a-z_]+)` *\|.*\| (\d{3}) +\|$/gm)].map(
      ([, code, status]) => [code, Number(status)],
    );
    expect(Object.fromEntries(documented)).toEqual(HTTP_STATUS_BY_CODE);
  });

  it('names every reason of a failed login', () => {
    const source = readFileSync(join(ROOT, 'lib/errors/login-failed.error.ts'), 'utf8');
    const reasons = [...source.matchAll(/^ {2}\| '(\w+)'/gm)].map(([, reason = '']) => reason);
    expect(reasons.length).toBeGreaterThan(20);
    const login = readPage('docs/login.md');
    const missing = reasons.filter((reason) => !new RegExp(`^\\| [^|]*\`${reason}\``, 'm').test(login));
    expect(missing).toEqual([]);
  });

  it('names every option', () => {
    const options = [moduleSchema, moduleHttpSchema, tenantSchema, loginSchema].flatMap(({ entries }) =>
      Object.keys(entries),
    );
    const page = readPage('docs/options.md');
    const missing = options.filter((name) => !new RegExp(`^\\|.*\`(${name})[\`(]`, 'm').test(page));
    expect(missing).toEqual([]);
  });
});

describe('the realm of docs/keycloak.md', () => {
  /** The members of all its objects. */
  const members: [string, unknown][] = [];
  JSON.parse(readPage('docs/keycloak-realm.json'), (...member) => void members.push(member));
  const page = readPage('docs/keycloak.md');

  it('has every field that the page names', () => {
    const table = page.split('| field ')[1]?.split('\n\n')[0] ?? '';
    const fields = [...table.matchAll(/^\| `([\w.]+)`/gm)].map(([, name]) => name);
    expect(fields.length).toBeGreaterThan(10);
    const names = new Set(members.map(([name]) => name));
    expect(fields.filter((name) => !names.has(name ?? ''))).toEqual([]);
  });

  it('is copied to the only file name that Keycloak imports it from', () => {
    const [, realm] = members.find(([name]) => name === 'realm') ?? [];
    expect(page).toContain(`\`data/import/${realm}-realm.json\``);
  });

  it('contains no secret, and the page sets each variable that it reads', () => {
    const secrets = members.filter(([name]) => ['secret', 'value'].includes(name)).map(([, value]) => value);
    expect(secrets).toHaveLength(4);
    for (const secret of secrets) {
      expect(page).toContain(`${/^\$\{(\w+)\}$/.exec(String(secret))?.[1]}=`);
    }
  });
});

describe('the documents', () => {
  const DOCUMENTS = ['CONTRIBUTING.md', 'SECURITY.md', 'llms.txt', ...PAGES];
  /** Files of a host, and files of the build. */
  const OF_OTHERS = new Set(['test/jest-e2e.json', 'test/app.e2e-spec.ts', 'sample/dist/start.js']);
  const specs = readdirSync(join(ROOT, 'test'), { recursive: true, encoding: 'utf8' });

  /** Paths and names of specs between backticks, and targets of links to this repository. */
  function filesIn(document: string): string[] {
    const text = readFileSync(join(ROOT, document), 'utf8').replaceAll(/^```[\s\S]*?^```/gm, '');
    const words = [...text.matchAll(/`([^`\n]+)`/g)].flatMap(([, code = '']) => code.split(/[\s,;()]+/));
    const named = words.filter((word) =>
      /^((lib|test|docs|sample|scripts|\.ci)\/|[\w-]+\.spec\.ts$)/.test(word),
    );
    const links = [...text.matchAll(/\]\((?!#)([^)#\s]+)/g)].map(([, target = '']) => target);
    const own = links.flatMap((target) => {
      const inRepository = /\/blob\/main\/(.+)/.exec(target)?.[1];
      return inRepository ?? (/^\w+:/.test(target) ? [] : join(dirname(document), target));
    });
    return [...named, ...own].filter((file) => !OF_OTHERS.has(file));
  }

  /** The anchors of a page's headings, as GitHub makes them. */
  function anchorsOf(page: string): string[] {
    const text = readPage(page).replaceAll(/^```[\s\S]*?^```/gm, '');
    return [...text.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
      heading
        .toLowerCase()
        .replaceAll(/[^\w\- ]/g, '')
        .replaceAll(' ', '-'),
    );
  }

  function exists(file: string): boolean {
    if (file.endsWith('.spec.ts') && !file.includes('/')) {
      return specs.some((spec) => basename(spec) === file);
    }
    const [folder = '', pattern] = file.split('*');
    return pattern === undefined
      ? existsSync(join(ROOT, file))
      : specs.some((spec) => `test/${spec}`.startsWith(folder) && spec.endsWith(pattern));
  }

  it.each(PAGES.filter((page) => page !== 'README.md'))(
    '%s begins with the question that it answers, and is listed',
    (page) => {
      expect(readPage(page).split('\n')[2]).toMatch(/\?$/);
      const name = basename(page);
      expect(`${readPage('docs/README.md')} (README.md)`).toContain(`(${name})`);
      expect(readPage('llms.txt')).toContain(name === 'README.md' ? '' : `(${page})`);
    },
  );

  it.each(DOCUMENTS)('%s has headings that its links and those of others name', (document) => {
    const missing = [...readPage(document).matchAll(/\]\(([^)#\s]*\.md)?#([^)\s]+)\)/g)].filter(
      ([, page, anchor = '']) =>
        !anchorsOf(page === undefined ? document : join(dirname(document), page)).includes(anchor),
    );
    expect(missing.map(([link]) => link)).toEqual([]);
  });

  it.each(DOCUMENTS)('%s names files that exist', (document) => {
    expect(filesIn(document).filter((file) => !exists(file))).toEqual([]);
  });

  it('docs/login-security.md gives the path of every test outside of test/login', () => {
    const named = filesIn('docs/login-security.md').filter((file) => /^[\w-]+\.spec\.ts$/.test(file));
    expect(named.length).toBeGreaterThan(30);
    expect(named.filter((name) => !exists(`test/login/${name}`))).toEqual([]);
  });

  it('name files at all', () => {
    expect(DOCUMENTS.flatMap(filesIn).length).toBeGreaterThan(200);
    expect(['lib/index.ts', 'readme.spec.ts', 'test/oidc/*.spec.ts'].map(exists)).toEqual([true, true, true]);
    expect(['lib/none.ts', 'none.spec.ts', 'test/none/*.spec.ts'].map(exists)).toEqual([false, false, false]);
  });
});
