import type { MirrorBatch, MirrorResult, MirrorScope, MirrorTarget } from 'nestjs-exhibitor/mirror';
import type { Pool } from 'pg';

interface KnownRow {
  id: string;
  digest: string;
}

/**
 * The tables of the mirror. Nothing else writes to them: keep your own columns in a table of your own, without a foreign key
 * to this one, which would keep rows from being removed.
 *
 * "C" is the order of bytes: the pages of `known` follow the primary key, whatever the locale of the database is.
 */
export const MIRROR_TABLES = `
  CREATE TABLE IF NOT EXISTS mirrored_event (
    tenant text COLLATE "C", event_id text COLLATE "C", generation bigint NOT NULL,
    read integer, held integer, copied_at timestamptz,
    PRIMARY KEY (tenant, event_id)
  );
  CREATE TABLE IF NOT EXISTS mirrored_exhibitor (
    tenant text COLLATE "C", event_id text COLLATE "C", id text COLLATE "C",
    digest text NOT NULL, exhibitor jsonb NOT NULL,
    PRIMARY KEY (tenant, event_id, id)
  );`;

/** Rows of a page of `known`. */
const PAGE = 1_000;

/** An event as the mirror has it, for a page of the operator. */
export interface MirroredEvent {
  eventId: string;
  /** Rows that are stored, that the last complete copy read, and that it did not remove. */
  stored: number;
  read: number | null;
  held: number | null;
  copiedAt: Date | null;
}

/** Keeps events in PostgreSQL. */
export class PostgresMirror<T> implements MirrorTarget<T> {
  readonly #pool: Pool;

  constructor(pool: Pool) {
    this.#pool = pool;
    // A connection that is lost also tells its query. Without a listener it would end the process.
    pool.on('connect', (client) => client.on('error', () => {}));
  }

  /** The update waits while an `apply` holds the row of the event. */
  async begin({ tenant, eventId }: MirrorScope): Promise<number> {
    const { rows } = await this.#pool.query<{ generation: string }>(
      `INSERT INTO mirrored_event AS event (tenant, event_id, generation) VALUES ($1, $2, 1)
       ON CONFLICT (tenant, event_id) DO UPDATE SET generation = event.generation + 1 RETURNING generation`,
      [toText(tenant), eventId],
    );
    return Number(rows[0]?.generation);
  }

  /** Each page begins after the last id of the one before. */
  async *known({ tenant, eventId }: MirrorScope): AsyncGenerator<KnownRow> {
    for (let last = '', count = PAGE; count === PAGE;) {
      const { rows } = await this.#pool.query<KnownRow>(
        `SELECT id, digest FROM mirrored_exhibitor WHERE tenant = $1 AND event_id = $2 AND id > $3
         ORDER BY id LIMIT ${PAGE}`,
        [toText(tenant), eventId, last],
      );
      yield* rows.map(({ id, digest }) => ({ id: fromText(id), digest }));
      count = rows.length;
      last = rows.at(-1)?.id ?? last;
    }
  }

  async apply({ tenant, eventId }: MirrorScope, batch: MirrorBatch<T>): Promise<boolean> {
    const event = [toText(tenant), eventId];
    const written = [...batch.added, ...batch.changed];
    const client = await this.#pool.connect();
    let isDone = false;
    try {
      await client.query("BEGIN; SET LOCAL idle_in_transaction_session_timeout = '10s'");
      // Until the transaction ends, `begin` waits: 10 s where this process is lost. A later run has changed the generation.
      const { rowCount } = await client.query(
        'SELECT FROM mirrored_event WHERE tenant = $1 AND event_id = $2 AND generation = $3 FOR UPDATE',
        [...event, batch.generation],
      );
      if (rowCount === 1) {
        await client.query(
          `INSERT INTO mirrored_exhibitor (tenant, event_id, id, digest, exhibitor)
           SELECT $1, $2, * FROM unnest($3::text[], $4::text[], $5::jsonb[])
           ON CONFLICT (tenant, event_id, id)
           DO UPDATE SET digest = excluded.digest, exhibitor = excluded.exhibitor`,
          [
            ...event,
            written.map(({ id }) => toText(id)),
            written.map(({ digest }) => digest),
            written.map(({ exhibitor }) => toJsonb(exhibitor)),
          ],
        );
        await client.query(
          'DELETE FROM mirrored_exhibitor WHERE tenant = $1 AND event_id = $2 AND id = ANY($3::text[])',
          [...event, batch.removed.map(toText)],
        );
      }
      await client.query('COMMIT');
      isDone = true;
      return rowCount === 1;
    } finally {
      // After an error the connection is closed, which rolls back.
      client.release(!isDone);
    }
  }

  /** Notes what a copy read and held back, unless a newer one will tell. */
  async note({ tenant, eventId }: MirrorScope, { rows, held = 0, superseded }: MirrorResult): Promise<void> {
    if (!superseded) {
      await this.#pool.query(
        'UPDATE mirrored_event SET (read, held, copied_at) = ($3, $4, now()) WHERE tenant = $1 AND event_id = $2',
        [toText(tenant), eventId, rows, held],
      );
    }
  }

  async events(tenant: string): Promise<MirroredEvent[]> {
    const { rows } = await this.#pool.query<MirroredEvent>(
      `SELECT event_id AS "eventId", read, held, copied_at AS "copiedAt", (SELECT count(*)::int
         FROM mirrored_exhibitor AS row WHERE (row.tenant, row.event_id) = (event.tenant, event.event_id)) AS stored
       FROM mirrored_event AS event WHERE tenant = $1 ORDER BY event_id`,
      [toText(tenant)],
    );
    return rows;
  }
}

/** `text` holds neither U+0000 nor half of a surrogate pair, which an id may have: they are stored as `\u0000`, `\ud800`. */
export function toText(id: string): string {
  return id.replace(
    /[\\\0\p{Surrogate}]/gu,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

function fromText(text: string): string {
  return text.replace(/\\u(....)/g, (_escape, hex: string) => String.fromCharCode(parseInt(hex, 16)));
}

/** `jsonb` does not hold them either. In records they become U+FFFD: no query needs them. */
function toJsonb(exhibitor: unknown): string {
  return JSON.stringify(exhibitor).replace(/\\(u0000|ud[89a-f]..|.)/g, (escape) =>
    escape.length > 2 ? '\\ufffd' : escape,
  );
}
