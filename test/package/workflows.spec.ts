import { execFileSync, spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { parseDocument } from 'yaml';
import { processesWith } from '../support/processes.js';
import { eventually } from '../support/wait.js';
import { ROOT } from './tarball.js';
import { workflows, type Job } from './workflows.js';

describe('the workflows', () => {
  it('parse, as the forms of issues do', () => {
    const files = readdirSync(join(ROOT, '.github'), { recursive: true, encoding: 'utf8' }).filter((name) =>
      name.endsWith('.yml'),
    );
    expect(files.length).toBeGreaterThanOrEqual(7);
    const wrong = files.map((name) => {
      const { errors, warnings } = parseDocument(readFileSync(join(ROOT, '.github', name), 'utf8'));
      return [...errors, ...warnings].map(({ message }) => `${name}: ${message}`);
    });
    expect(wrong.flat()).toEqual([]);
  });

  it('run the cells of npm run test:matrix', () => {
    const { matrix } = workflows();
    const cells: unknown = JSON.parse(readFileSync(join(ROOT, 'test/matrix/cells.json'), 'utf8'));
    expect(matrix?.jobs['cell']?.strategy?.matrix).toEqual(cells);
    const [command] = commandsOf(matrix?.jobs['cell']).filter((run) => run.includes('test:matrix'));
    const given = Object.keys(Object(cells)).map((axis) => `${axis}=\${{ matrix.${axis} }}`);
    expect(command).toBe(`npm run test:matrix -- ${given.join(' ')}`);
    expect(commandsOf(matrix?.jobs['bun'])).toContain('npm run test:matrix -- bun');
  });

  it('run all checks, also before a release', () => {
    const { ci, release } = workflows();
    expect(commandsOf(ci?.jobs['check'])).toEqual(['.ci/run']);
    expect(commandsOf(release?.jobs['check'])).toEqual(['.ci/run']);
    expect(release?.jobs['publish']?.needs).toBe('check');
  });

  it('pin every action to a commit, and have a time limit and no permission that they do not need', () => {
    const jobs = Object.values(workflows()).flatMap((workflow) =>
      Object.values(workflow.jobs).map((job) => ({
        ...job,
        granted: job.permissions ?? workflow.permissions,
      })),
    );
    const unpinned = jobs
      .flatMap(({ steps }) => steps)
      .filter(({ uses = `a@${'0'.repeat(40)}` }) => !/@[0-9a-f]{40}$/.test(uses));
    expect(unpinned).toEqual([]);
    expect(jobs.filter((job) => job['timeout-minutes'] === undefined)).toEqual([]);
    const writers = jobs.filter(({ granted }) => Object.values(granted).includes('write'));
    expect(writers.map(({ name, granted }) => [name, granted])).toEqual([
      ['Version', { contents: 'write', 'pull-requests': 'write' }],
      ['Publish', { contents: 'write', 'id-token': 'write' }],
    ]);
  });
});

describe('npm run test:matrix', () => {
  const list = (...args: string[]): string[] =>
    execFileSync(process.execPath, ['test/matrix/run.mjs', 'list', ...args], { cwd: ROOT, stdio: 'pipe' })
      .toString()
      .trim()
      .split('\n');

  it('has a cell for every Node, Nest, adapter and package manager, and one for Bun', () => {
    const cells = list();
    expect(new Set(cells).size).toBe(3 * 2 * 2 * 2 + 1);
    expect(cells).toEqual(expect.arrayContaining(['node 20.19, nest 11, express, npm', 'bun 1']));
  });

  it('runs the cells that arguments choose', () => {
    expect(list('node=22,24', 'nest=12', 'adapter=fastify', 'manager=pnpm', 'bun')).toEqual([
      'node 22, nest 12, fastify, pnpm',
      'node 24, nest 12, fastify, pnpm',
      'bun 1',
    ]);
    expect(() => list('node=21')).toThrow(
      /node=21 chooses no cell. Choose from: node=20.19,22,24 nest=11,12/,
    );
  });

  it.each([
    ['kills a cell that does not end, with its processes', 'setInterval(() => 0, 1000)', 'killed after 1 s'],
    ['kills the processes that a cell leaves behind', 'process.exit(0)', 'passed'],
  ])('%s', async (_does, end, result) => {
    const mark = randomUUID();
    const cell = `
      const forever = ['-e', 'setInterval(() => 0, 1000)'];
      require('node:child_process').spawn(process.execPath, forever, { stdio: 'ignore' }).unref();
      ${end}`;
    const script = `
      import { runLimited } from './test/matrix/run-limited.mjs';
      const { isOk, output } = await runLimited(process.execPath, ['-e', ${JSON.stringify(cell)}], { seconds: 1 });
      console.log(isOk ? 'passed' : output);`;
    const env = { ...process.env, MARK: mark };
    const options = { cwd: ROOT, env, timeout: 60_000 };
    const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', script], options);
    expect(stdout.toString().trim()).toBe(result);
    await eventually(() => processesWith(`MARK=${mark}`).length === 0);
  });
});

function commandsOf(job: Job | undefined): string[] {
  return (job?.steps ?? []).flatMap(({ run }) => run ?? []);
}
