import type { MirrorLog } from '../problems/mirror-log.js';
import type { MirrorScope } from './mirror-target.interface.js';

/** Takes, after each page, the rows and pages of the present reading, and what was written. */
export type OnPage = (counts: object) => void;

/** Remembers a text for each event, by {@link scopeKey}. Kinds: `status`, `approved` removals, when a copy is `due`. */
export interface MirrorStore {
  all(kind: string): Promise<Record<string, string>>;
  set(kind: string, texts: Record<string, string>): Promise<void>;
  /** Copies the events again and again, where there is a queue. */
  start(copy: (scope: MirrorScope, onPage: OnPage) => Promise<unknown>): void;
  close(): Promise<void>;
}

export function memoryStore(log: MirrorLog): MirrorStore {
  const kinds = new Map<string, Record<string, string>>();
  return {
    all: async (kind) => ({ ...kinds.get(kind) }),
    set: async (kind, texts) => void kinds.set(kind, { ...kinds.get(kind), ...texts }),
    start: () => log.noQueue(),
    close: async () => {},
  };
}

/** Names an event, whatever characters its two texts have. */
export function scopeKey({ tenant, eventId }: MirrorScope): string {
  return JSON.stringify([tenant, eventId]);
}
