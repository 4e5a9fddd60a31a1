import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import type { ProcessCommands, ProcessConfig } from './commands.js';
import { CompiledSources } from './compile.js';

/** Commands of a program, by name. */
type Commands<All> = { [Name in keyof All]: (argument: never) => Promise<unknown> };

/** A process of a fleet that does what it is told. */
export class FleetProcess<All extends Commands<All> = ProcessCommands> {
  readonly child: ChildProcess;
  readonly #orders = new Map<number, (answer: { result?: unknown; failure?: string }) => void>();
  #count = 0;

  /** @param program path of a compiled program, see `compile.ts` */
  constructor(program: string) {
    this.child = fork(program, {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      execArgv: ['--import', 'reflect-metadata'],
    });
    this.child.on('message', ({ id, ...answer }: { id: number; result?: unknown; failure?: string }) => {
      this.#orders.get(id)?.(answer);
      this.#orders.delete(id);
    });
    this.child.once('exit', (code, signal) => {
      for (const end of this.#orders.values()) {
        end({ failure: `the process ended: ${signal ?? code}` });
      }
    });
  }

  /** Sends a command. Rejects where it fails or the process ends. */
  send<Name extends keyof All>(
    command: Name,
    argument?: Parameters<All[Name]>[0],
  ): Promise<Awaited<ReturnType<All[Name]>>> {
    this.#count += 1;
    const id = this.#count;
    return new Promise((resolve, reject) => {
      this.#orders.set(id, ({ result, failure }) =>
        failure === undefined
          ? resolve(result as Awaited<ReturnType<All[Name]>>)
          : reject(new Error(failure)),
      );
      this.child.send({ id, command, argument }, (error) => error && reject(error));
    });
  }

  /** Stops for a while, as a process that the machine does not run. */
  freeze(): void {
    this.child.kill('SIGSTOP');
  }

  thaw(): void {
    this.child.kill('SIGCONT');
  }

  /** Ends the process as a crash would. */
  async kill(): Promise<void> {
    if (this.child.exitCode === null && this.child.signalCode === null) {
      const gone = once(this.child, 'exit');
      this.child.kill('SIGKILL');
      await gone;
    }
  }
}

const PROGRAM = 'test/fleet/process.ts';

/** Compiles what {@link startProcess} runs. */
export function compileHost(): CompiledSources {
  const support = ['booth.controller.ts', 'clock.ts'].map((file) => `test/support/${file}`);
  return CompiledSources.create([PROGRAM, 'test/fleet/obey.ts', ...support]);
}

/** Starts a host of the fleet. `onStart` is given its process first. */
export async function startProcess(
  sources: CompiledSources,
  config: ProcessConfig,
  onStart?: (started: FleetProcess) => void,
): Promise<FleetProcess> {
  const started = new FleetProcess(sources.path(PROGRAM));
  onStart?.(started);
  await started.send('start', config);
  return started;
}
