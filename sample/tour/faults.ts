import { isDeepStrictEqual } from 'node:util';
import type { Fault, SandboxOperation } from 'nestjs-exhibitor/testing';

/** The faults of a sandbox. */
export interface Faults {
  /** The name of the fault that the next requests meet: a key of {@link FAULTS}, `OTHER`, or `undefined` for none. */
  current(): Promise<string | undefined>;
  /** Replaces all faults by one of {@link FAULTS}; by none for any other name. */
  choose(name: string): Promise<void>;
}

/** A fault that was added elsewhere, for example on the page of the sandbox. */
export const OTHER = 'other';

/** A fault to try. */
export interface FaultToTry {
  name: string;
  text: string;
  fault: Fault;
  /** Applies to so many requests. */
  times: number;
  operations: readonly SandboxOperation[];
}

const REST: readonly SandboxOperation[] = ['list', 'lookup'];
/** `times` of a fault that stays until it is removed. */
const UNTIL_REMOVED = 10_000;
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
    text: 'One connection breaks before the reply.',
    fault: { kind: 'reset' },
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
  const send = async (method: string, body?: object): Promise<unknown> => {
    const reply = await fetch(`${sandboxUrl}/sandbox/faults`, { method, body: JSON.stringify(body) });
    return JSON.parse(await reply.text());
  };
  return {
    current: async () => nameOf(await send('GET')),
    choose: async (name) => {
      await send('DELETE');
      const { operations: operation, fault, times } = FAULTS[name] ?? {};
      if (fault !== undefined) {
        await send('POST', { match: { operation }, fault, times });
      }
    },
  };
}

/** @param pending the faults that no request has met yet, as the sandbox answers them */
function nameOf(pending: unknown): string | undefined {
  const [first] = Array.isArray(pending) ? pending : [];
  if (first === undefined) {
    return undefined;
  }
  const { match, fault }: { match?: unknown; fault?: unknown } = Object(first);
  const known = Object.entries(FAULTS).find(
    ([, one]) =>
      isDeepStrictEqual(match, { operation: one.operations }) && isDeepStrictEqual(fault, one.fault),
  );
  return known?.[0] ?? OTHER;
}
