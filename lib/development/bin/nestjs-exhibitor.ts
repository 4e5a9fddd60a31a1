#!/usr/bin/env node
import { createRequire } from 'node:module';

interface Command {
  readonly help: string;
  /** Resolves with the exit code. */
  run(args: string[]): Promise<number>;
}

/** A command is loaded when it is called. */
const COMMANDS: ReadonlyMap<string, () => Promise<Command>> = new Map([
  ['sandbox', () => import('../sandbox/sandbox.command.js')],
  ['doctor', () => import('../doctor/doctor.command.js')],
  ['schema', () => import('../schema/schema.command.js')],
]);

const HELP = `Usage: nestjs-exhibitor <command> [options]

Commands:
  sandbox    Starts a local copy of the service and its identity provider, for development.
  doctor     Checks the values from onboarding, and names those that are wrong.
  schema     Writes a zod schema, or TypeScript, of what the records of an event look like.

Options:
  --help     Shows this text, or that of a command: nestjs-exhibitor sandbox --help
  --version  Shows the version.`;

async function main([name = '--help', ...args]: string[]): Promise<void> {
  const load = COMMANDS.get(name);
  try {
    if (load) {
      const { help, run } = await load();
      process.exitCode = args.includes('--help') ? show(help) : await run(args);
    } else if (name === '--version') {
      show(createRequire(import.meta.url)('nestjs-exhibitor/package.json').version);
    } else if (name === '--help') {
      show(HELP);
    } else {
      throw new Error('there is no such command. See nestjs-exhibitor --help');
    }
  } catch (error) {
    console.error(isExplained(error) ? `nestjs-exhibitor ${name}: ${error.message}` : error);
    process.exitCode = 2;
  }
}

function show(text: string): number {
  console.log(text);
  return 0;
}

/** Whether a message without a stack is enough. Errors of other classes without a code, such as TypeError, are bugs. */
function isExplained(error: unknown): error is Error {
  return error instanceof Error && (error.name === 'Error' || 'code' in error);
}

// The reader of a pipe may close it early.
process.stdout.on('error', () => process.exit(process.exitCode ?? 2));

// A module that a command has loaded may have left connections or timers open.
void main(process.argv.slice(2)).finally(() => setTimeout(() => process.exit(), 100).unref());
