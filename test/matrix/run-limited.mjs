/** Commands with a time limit. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const MOST_OUTPUT = 64 * 1024 * 1024;

/** Runs a command, and kills it after `seconds`. Never rejects. */
export async function runLimited(command, args, { seconds, ...options }) {
  const limits = { timeout: seconds * 1000, killSignal: 'SIGKILL', maxBuffer: MOST_OUTPUT };
  try {
    const { stdout, stderr } = await promisify(execFile)(command, args, { ...limits, ...options });
    return { isOk: true, output: `${stdout}${stderr}` };
  } catch ({ message, stdout, stderr, killed }) {
    const end = killed ? `killed after ${seconds} s` : message;
    return { isOk: false, output: `${stdout}${stderr}\n${end}` };
  }
}
