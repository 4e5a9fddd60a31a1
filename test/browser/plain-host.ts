import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';

/** Plain JavaScript, as a host runs it: no decorators, no transform. */
const SCRIPT = `
import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { firstValueFrom, lastValueFrom, toArray } from 'rxjs';
import { ExhibitorModule, ExhibitorsService, TokenService } from './dist/index.js';

const { tenant, secrets } = JSON.parse(process.env.HOST_OPTIONS);
const app = await NestFactory.create(ExhibitorModule.forRoot({ tenant, secrets }), { logger: ['fatal'] });
await app.listen(0, '127.0.0.1');
const exhibitors = app.get(ExhibitorsService);
const page = await firstValueFrom(exhibitors.list('boutique-2026'));
const all = await lastValueFrom(exhibitors.stream('world-2026').pipe(toArray()));
const mine = await firstValueFrom(exhibitors.lookup('world-2026', 'sam.several@example.com'));
const { tokenType } = await app.get(TokenService).getToken();
// A call that is still running must keep nothing open either.
const fault = { match: { operation: 'list' }, fault: { kind: 'delay', ms: 60_000 }, times: 1 };
await fetch(tenant.baseUrl + '/sandbox/faults', { method: 'POST', headers: { connection: 'close' }, body: JSON.stringify(fault) });
exhibitors.list('national-2026').subscribe({ error: () => undefined });
console.log(JSON.stringify([page.data.length, all.length, mine.length, tokenType]));
const tellHandles = () =>
  console.log('handles ' + JSON.stringify(process.getActiveResourcesInfo().filter((name) => !/TTY|Pipe|FS/.test(name))));
tellHandles();
await app.close();
// Node frees the handle of a server a moment after its close event.
await new Promise((resolve) => setTimeout(resolve, 50));
tellHandles();
`;

/** Runs the host in plain Node in a folder that holds the built package. Kills it where it still runs after 15 s. */
export async function runPlainHost(
  folder: string,
  options: object,
): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const script = join(folder, 'host.mjs');
  await writeFile(script, SCRIPT);
  const child = spawn(process.execPath, [script], {
    env: { PATH: process.env['PATH'], HOST_OPTIONS: JSON.stringify(options) },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 15_000,
  });
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close') as Promise<[number | null]>,
  ]);
  return { code, stdout, stderr };
}
