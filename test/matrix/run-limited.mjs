/** Commands with a time limit. */
import { spawn } from 'node:child_process';

/** Process groups that run. */
const groups = new Set();

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.once(signal, () => {
    groups.forEach(kill);
    process.exit(1);
  });
}

/**
 * Runs a command in a process group of its own, and kills the whole group after `seconds` and at its end, so that
 * nothing outlives it. Never rejects.
 */
export function runLimited(command, args, { cwd, env = process.env, seconds }) {
  return new Promise((resolve) => {
    const child = spawn(command, args, { cwd, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    const chunks = [];
    let isLate = false;
    groups.add(child.pid);
    const timer = setTimeout(() => {
      isLate = true;
      kill(child.pid);
    }, seconds * 1000);
    const end = (isOk) => {
      clearTimeout(timer);
      groups.delete(child.pid);
      const late = isLate ? `\nkilled after ${seconds} s` : '';
      resolve({ isOk: isOk && !isLate, isLate, output: `${Buffer.concat(chunks)}${late}` });
    };
    child.stdout.on('data', (chunk) => chunks.push(chunk));
    child.stderr.on('data', (chunk) => chunks.push(chunk));
    child.on('error', (error) => {
      chunks.push(Buffer.from(String(error)));
      end(false);
    });
    child.on('exit', (code) => {
      kill(child.pid);
      // The rest of the output; a process that left the group may keep the pipes open.
      const rest = setTimeout(() => end(code === 0), 1000);
      child.on('close', () => {
        clearTimeout(rest);
        end(code === 0);
      });
    });
  });
}

function kill(group) {
  try {
    process.kill(-group, 'SIGKILL');
  } catch {
    // It has ended.
  }
}
