import { randomInt } from 'node:crypto';
import type { MirrorScope } from '../../lib/integrations/mirror/index.js';
import {
  defaultSeed,
  type ExhibitorSandbox,
  type SandboxExhibitor,
  type SandboxTenantOptions,
} from '../../lib/development/testing/index.js';
import { pageOf } from '../../lib/development/sandbox/rest-api.js';
import { startSandbox } from '../support/sandbox.js';
import { type AnyFault, reset, sometimes, stall, truncate } from '../support/faults.js';

const TENANTS = ['north', 'east', 'south', 'west'];
const EVENTS = Array.from({ length: 25 }, (_, index) => `event-${index}`);
export const SCOPES: readonly MirrorScope[] = TENANTS.flatMap((tenant) =>
  EVENTS.map((eventId) => ({ tenant, eventId })),
);

/** No event ever has fewer exhibitors, so that an empty table is the result of a fault. */
const LEAST = 12;

/** One in five requests meets one of them. */
const LIST_FAULTS: readonly AnyFault[] = [
  { kind: 'status', status: 503 },
  { kind: 'status', status: 404 },
  { kind: 'status', status: 500 },
  { kind: 'body', body: JSON.stringify(pageOf([], 1, 50)) },
  { kind: 'body', body: '[]' },
  { kind: 'body', body: '<html>' },
  reset('mid-body'),
  stall('mid-body'),
  truncate(),
  { kind: 'delay', ms: 1_000 },
];

/** The service's side: events that change, and faults. Exhibitors of all events have the same ids. */
export class MirrorWorld {
  #revision = 0;
  private constructor(readonly sandbox: ExhibitorSandbox) {}

  static async start(): Promise<MirrorWorld> {
    const seed = defaultSeed();
    const [template] = seed.tenants;
    if (template === undefined) {
      throw new Error('the seed has no tenant');
    }
    for (const key of TENANTS) {
      const ids = { clientId: `${key}-api`, loginClientId: `${key}-web`, publicLoginClientId: `${key}-app` };
      seed.tenants.push({ ...template, ...ids, key, tenantId: `id-of-${key}` });
    }
    const world = new MirrorWorld(await startSandbox({ seed }));
    for (const scope of SCOPES) {
      const length = randomInt(20, 130);
      world.#set(
        scope,
        Array.from({ length }, (_, id) => world.#record(scope, id)),
      );
    }
    return world;
  }

  get tenants(): Record<string, SandboxTenantOptions> {
    return Object.fromEntries(TENANTS.map((key) => [key, this.sandbox.tenantOptions(key)]));
  }

  exhibitors({ tenant, eventId }: MirrorScope): readonly SandboxExhibitor[] {
    return this.sandbox.exhibitors(eventId, tenant);
  }

  /** One event changes: exhibitors join, leave or change; sometimes a third of them leaves, which is held back. */
  change(): void {
    const scope = SCOPES[randomInt(SCOPES.length)] ?? { tenant: '', eventId: '' };
    const records = [...this.exhibitors(scope)];
    const kind = randomInt(20);
    if (kind === 0) {
      records.splice(0, Math.min(Math.ceil(records.length / 3), records.length - LEAST));
    } else if (kind < 7) {
      records.splice(randomInt(records.length), records.length > LEAST ? 1 : 0);
    } else if (kind < 14) {
      records.splice(randomInt(records.length), 0, this.#record(scope, randomInt(1e9)));
    } else {
      const place = randomInt(records.length);
      records[place] = this.#record(scope, String(records[place]?.id).slice('exhibitor-'.length));
    }
    this.#set(scope, records);
  }

  fail(): void {
    this.sandbox.failNext('list', sometimes(0.2, ...LIST_FAULTS), Infinity);
    this.sandbox.failNext('token', sometimes(0.2, { kind: 'status', status: 503 }), Infinity);
  }

  #record({ tenant, eventId }: MirrorScope, id: number | string): SandboxExhibitor {
    this.#revision += 1;
    const shown = { name: `${tenant}/${eventId}`, hall: String(this.#revision), booth: '', country: '' };
    return { id: `exhibitor-${id}`, contactEmails: [], ...shown };
  }

  #set({ tenant, eventId }: MirrorScope, records: readonly SandboxExhibitor[]): void {
    this.sandbox.setExhibitors(eventId, records, tenant);
  }
}
