import type { ChildProcess } from 'node:child_process';
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { describe } from '@jest/globals';

/** A program that some suites need. */
export interface Program {
  name: string;
  /** Names of its file. */
  files: readonly string[];
  /** Environment variable with its path. */
  variable: string;
  /** A path outside of PATH. */
  elsewhere?: string;
}

/**
 * A suite that needs a program. Without it the suite is skipped, and a line says so; with `CI` set it fails, since that
 * line might not be read.
 */
export function describeWith(program: Program, title: string, suite: (path: string) => void): void {
  const path = find(program);
  if (path !== undefined) {
    describe(title, () => suite(path));
    return;
  }
  const line = `${program.name} was not found: "${title}" is not tested. Install it, or set ${program.variable}.`;
  if (process.env['CI']) {
    throw new Error(line);
  }
  process.stderr.write(`${line}\n`);
  describe.skip(title, () => suite(''));
}

function find({ files, variable, elsewhere }: Program): string | undefined {
  const named = process.env[variable];
  if (named) {
    return named;
  }
  const folders = (process.env['PATH'] ?? '').split(delimiter);
  const candidates = folders.flatMap((folder) => files.map((file) => join(folder, file)));
  return [...candidates, ...(elsewhere === undefined ? [] : [elsewhere])].find((path) => existsSync(path));
}

/** Waits until a program says one of these words. Fails with all that it said where it ends before. */
export async function says(child: ChildProcess, ...words: readonly string[]): Promise<void> {
  let said = '';
  await new Promise<void>((resolve, reject) => {
    (child.stdout ?? child.stderr)?.on('data', (chunk) => {
      said += String(chunk);
      if (words.some((word) => said.includes(word))) {
        resolve();
      }
    });
    child.once('error', reject).once('exit', () => reject(new Error(`${child.spawnfile} ended:\n${said}`)));
  });
}
