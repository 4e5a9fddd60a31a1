/** Runs a sandbox in a thread of its own, for the sandbox of CommonJS test runners in `remote-sandbox.ts`. */
import { parentPort, workerData, type MessagePort } from 'node:worker_threads';
import { ExhibitorSandbox } from '../exhibitor-sandbox.js';
import { toFailure, type SandboxCall, type SandboxResult, type WorkerSetup } from './sandbox-messages.js';

if (parentPort !== null) {
  void serve(parentPort, workerData as WorkerSetup);
}

async function serve(main: MessagePort, { options, port, answered }: WorkerSetup): Promise<void> {
  try {
    const sandbox = await ExhibitorSandbox.start(options);
    port.on('message', (call: SandboxCall) => {
      port.postMessage(resultOf(() => run(sandbox, call)));
      Atomics.store(answered, 0, 1);
      Atomics.notify(answered, 0);
    });
    main.on('message', ({ id, ...call }: SandboxCall & { id: number }) => {
      void settle(() => run(sandbox, call)).then((result) => main.postMessage({ id, result }));
    });
    main.postMessage({ id: 0, result: { value: sandbox.url } });
  } catch (error) {
    main.postMessage({ id: 0, result: toFailure(error) });
  }
}

function run(sandbox: ExhibitorSandbox, { kind, name, args }: SandboxCall): unknown {
  if (kind === 'set') {
    return Reflect.set(sandbox, name, args[0]);
  }
  const member: unknown = Reflect.get(sandbox, name);
  return kind === 'call' && typeof member === 'function' ? Reflect.apply(member, sandbox, args) : member;
}

function resultOf(work: () => unknown): SandboxResult {
  try {
    return { value: work() };
  } catch (error) {
    return toFailure(error);
  }
}

async function settle(work: () => unknown): Promise<SandboxResult> {
  try {
    return { value: await work() };
  } catch (error) {
    return toFailure(error);
  }
}
