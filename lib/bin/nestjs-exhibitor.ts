#!/usr/bin/env node
import { createRequire } from 'node:module';
import { CommandError } from './command.error.js';

interface Command {
  /** What `--help` prints. */
  readonly help: string;
  /** Runs with the arguments after its name, and resolves with the exit code. Throws a `CommandError` if it cannot run. */
  run(args: string[]): Promise<number>;
}

/** Each command is loaded when it is called: the doctor needs no sandbox. */
const COMMANDS: Readonly<Record<string, () => Promise<Command>>> = {
  sandbox: () => import('../testing/command/sandbox.command.js'),
  doctor: () => import('../doctor/doctor.command.js'),
};

const HELP = `Usage: nestjs-exhibitor <command> [options]

Commands:
  sandbox    Starts a local copy of the service and its identity provider, for development.
  doctor     Checks the values from onboarding, and names those that are wrong.

Options:
  --help     Shows this text, or that of a command: nestjs-exhibitor sandbox --help
  --version  Shows the version.`;

async function main(): Promise<void> {
  process.exitCode = await runCommand(process.argv.slice(2));
}

async function runCommand([name = '--help', ...args]: string[]): Promise<number> {
  if (name === '--version' || name === '-v') {
    const { version }: { version: string } = createRequire(import.meta.url)('../../package.json');
    console.log(version);
    return 0;
  }
  if (name === '--help' || name === '-h') {
    console.log(HELP);
    return 0;
  }
  const load = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (!load) {
    console.error(`nestjs-exhibitor: there is no command "${name}". See nestjs-exhibitor --help`);
    return 2;
  }
  const { help, run } = await load();
  if (args.includes('--help') || args.includes('-h')) {
    console.log(help);
    return 0;
  }
  return run(args).catch((error: unknown) => reportFailure(name, error));
}

/** Prints why a command cannot run. What is no mistake of the caller is printed with its stack. */
function reportFailure(command: string, error: unknown): number {
  if (error instanceof CommandError) {
    console.error(`nestjs-exhibitor ${command}: ${error.message}`);
  } else if (isArgumentError(error)) {
    // What follows the first sentence explains `--`, which no command here takes.
    const [message] = error.message.split('. ');
    console.error(`nestjs-exhibitor ${command}: ${message}. See nestjs-exhibitor ${command} --help`);
  } else {
    console.error(error);
  }
  return 2;
}

/** Whether `parseArgs` of `node:util` refused an argument. */
function isArgumentError(error: unknown): error is Error {
  return error instanceof Error && 'code' in error && String(error.code).startsWith('ERR_PARSE_ARGS_');
}

void main();
