/** The workflows of `.github/`. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { ROOT } from './tarball.js';

export interface Job {
  name: string;
  needs?: string;
  permissions?: Record<string, string>;
  strategy?: { matrix: Record<string, readonly string[]> };
  steps: readonly { uses?: string; run?: string }[];
  'timeout-minutes'?: number;
}

export interface Workflow {
  permissions: Record<string, string>;
  jobs: Record<string, Job>;
}

/** Name of the file without its ending → workflow. */
export function workflows(): Record<string, Workflow> {
  const folder = join(ROOT, '.github/workflows');
  const parsed = readdirSync(folder).map((name) => [
    name.replace('.yml', ''),
    parse(readFileSync(join(folder, name), 'utf8')) as Workflow,
  ]);
  return Object.fromEntries(parsed) as Record<string, Workflow>;
}
