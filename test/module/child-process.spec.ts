import { execFile, spawn } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startSandbox } from '../support/sandbox.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';

/** Below `node_modules`, so that what is built there resolves the packages of this project and git ignores it. */
const CACHE = join(process.cwd(), 'node_modules', '.cache');

/** Plain JavaScript, as a host runs it: no decorators, no transform. */
const SCRIPT = `
import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { firstValueFrom, lastValueFrom, toArray } from 'rxjs';
import { ExhibitorModule, ExhibitorsService, TokenService } from './dist/index.js';

const { tenant, secrets, closes } = JSON.parse(process.env.HOST_OPTIONS);
const app = await NestFactory.create(ExhibitorModule.forRoot({ tenant, secrets }), { logger: ['fatal'] });
await app.listen(0, '127.0.0.1');
const exhibitors = app.get(ExhibitorsService);
const page = await firstValueFrom(exhibitors.list('boutique-2026'));
const all = await lastValueFrom(exhibitors.stream('world-2026').pipe(toArray()));
const mine = await firstValueFrom(exhibitors.lookup('world-2026', 'sam.several@example.com'));
const { tokenType } = await app.get(TokenService).getToken();
// A call nobody waits for any more must keep nothing open either.
exhibitors.list('national-2026').subscribe({ error: () => undefined });
console.log(JSON.stringify([page.data.length, all.length, mine.length, tokenType]));
if (closes) await app.close();
// Node frees the handle of its server a moment after it says that it is closed.
await new Promise((resolve) => setTimeout(resolve, 50));
console.log('handles ' + JSON.stringify(process.getActiveResourcesInfo().filter((name) => !/TTY|Pipe|FS/.test(name))));
`;

interface Ended {
  code: number | null;
  stdout: string;
  stderr: string;
}

let sandbox: ExhibitorSandbox;
let folder: string;
beforeAll(async () => {
  await mkdir(CACHE, { recursive: true });
  folder = await mkdtemp(join(CACHE, 'child-process-'));
  const tsc = join('node_modules', 'typescript', 'bin', 'tsc');
  const build = [
    tsc,
    '-p',
    'tsconfig.build.json',
    '--outDir',
    join(folder, 'dist'),
    '--declaration',
    'false',
  ];
  [sandbox] = await Promise.all([startSandbox(), promisify(execFile)(process.execPath, build)]);
  await writeFile(join(folder, 'host.mjs'), SCRIPT);
}, 120_000);
afterAll(async () => {
  await sandbox?.stop();
  await rm(folder, { recursive: true, force: true });
});

/** Runs the host in plain Node. Kills it `patience` milliseconds after its last line, if it still runs then. */
async function run(closes: boolean, patience: number): Promise<Ended> {
  const options = { tenant: sandbox.tenantOptions('acme'), secrets: ['s'.repeat(32)], closes };
  const child = spawn(process.execPath, [join(folder, 'host.mjs')], {
    env: { PATH: process.env['PATH'], HOST_OPTIONS: JSON.stringify(options) },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let timer = setTimeout(() => child.kill('SIGKILL'), 25_000);
  const text = { stdout: '', stderr: '' };
  child.stderr.on('data', (chunk) => (text.stderr += String(chunk)));
  child.stdout.on('data', (chunk) => {
    text.stdout += String(chunk);
    if (!text.stdout.includes('handles')) {
      return;
    }
    clearTimeout(timer);
    timer = setTimeout(() => child.kill('SIGKILL'), patience);
  });
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  clearTimeout(timer);
  return { code, ...text };
}

describe('a host in plain node', () => {
  it('works with the built package, and ends by itself once it is closed: no handle is left', async () => {
    const { code, stdout, stderr } = await run(true, 5_000);
    expect(stderr).toBe('');
    expect(stdout.trim().split('\n')).toEqual(['[7,1234,3,"Bearer"]', 'handles []']);
    expect(code).toBe(0);
  });

  it('goes on where it is not closed, so that the end above is the doing of the close', async () => {
    const { code, stdout } = await run(false, 1_500);
    expect(stdout).toContain('[7,1234,3,"Bearer"]');
    expect(code).toBeNull();
  });
});
