import type { Fault, SandboxOperation } from 'nestjs-exhibitor/testing';

/** Adds faults to the replies of a sandbox: `ExhibitorSandbox` itself, or one in another process. */
export interface Faults {
  failNext(match: SandboxOperation, fault: Fault, times: number): void | Promise<void>;
  clearFaults(): void | Promise<void>;
}

/** A fault to try. */
export interface FaultToTry {
  name: string;
  text: string;
  fault: Fault;
  /** Applies to so many requests of each operation. */
  times: number;
  operations: readonly SandboxOperation[];
}

const REST: readonly SandboxOperation[] = ['list', 'lookup'];
/** `times` of a fault that stays until it is removed. */
export const UNTIL_REMOVED = 10_000;
const status = (code: number, headers = {}): Fault => ({ kind: 'status', status: code, headers });

export const FAULTS: Readonly<Record<string, FaultToTry>> = {
  slow: {
    name: 'Slow',
    text: 'One reply takes 5 s.',
    fault: { kind: 'delay', ms: 5_000 },
    times: 1,
    operations: REST,
  },
  error: { name: '500', text: 'Two replies are 500.', fault: status(500), times: 2, operations: REST },
  limit: {
    name: '429',
    text: 'One reply is 429 and asks to wait 1 s.',
    fault: status(429, { 'retry-after': '1' }),
    times: 1,
    operations: REST,
  },
  reset: {
    name: 'Reset',
    text: 'One connection breaks within the reply.',
    fault: { kind: 'reset', at: 'mid-body' },
    times: 1,
    operations: REST,
  },
  revoked: {
    name: 'Revoked tokens',
    text: 'The access token is refused with 401.',
    fault: status(401),
    times: 1,
    operations: REST,
  },
  down: {
    name: 'Service down',
    text: 'The REST API answers 503 until you remove it.',
    fault: status(503),
    times: UNTIL_REMOVED,
    operations: REST,
  },
  provider: {
    name: 'Provider down',
    text: 'The token endpoint answers 503 until you remove it.',
    fault: status(503),
    times: UNTIL_REMOVED,
    operations: ['token'],
  },
};

/** Faults of the command `nestjs-exhibitor sandbox`, over HTTP. */
export function faultsOf(sandboxUrl: string): Faults {
  const send = async (method: string, body?: object) => {
    await fetch(`${sandboxUrl}/sandbox/faults`, { method, body: JSON.stringify(body) });
  };
  return {
    failNext: (match, fault, times) => send('POST', { match, fault, times }),
    clearFaults: () => send('DELETE'),
  };
}
