/** Processes of the machine. */
import { readdirSync, readFileSync } from 'node:fs';

/** Ids of the processes with a variable in their environment, given as `NAME=value`. Needs Linux, as `.ci/run` does. */
export function processesWith(variable: string): string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((id) => environmentOf(id).includes(variable));
}

/** The environment of a process; empty where it has ended or belongs to another user. */
function environmentOf(id: string): string[] {
  try {
    return readFileSync(`/proc/${id}/environ`, 'utf8').split('\0');
  } catch {
    return [];
  }
}
