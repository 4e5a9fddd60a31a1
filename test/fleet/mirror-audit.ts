import type { Pool } from 'pg';

/**
 * Triggers that record, in the transaction that writes, what must never happen. A transaction tells the generation of its run
 * in the setting `mirror.generation`.
 */
const AUDIT = `
  CREATE TABLE breach (what text, tenant text, event_id text, at timestamptz DEFAULT clock_timestamp());
  CREATE TABLE ended (outcome text);

  CREATE FUNCTION audit_row() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
      seen mirrored_exhibitor := CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
      newest bigint;
    BEGIN
      SELECT generation INTO newest FROM mirrored_event
        WHERE (tenant, event_id) = (seen.tenant, seen.event_id);
      IF newest <> current_setting('mirror.generation')::bigint THEN
        INSERT INTO breach VALUES ('written by an older run', seen.tenant, seen.event_id);
      END IF;
      IF seen.exhibitor->>'name' <> seen.tenant || '/' || seen.event_id THEN
        INSERT INTO breach VALUES ('a row of ' || (seen.exhibitor->>'name'), seen.tenant, seen.event_id);
      END IF;
      RETURN NULL;
    END $$;
  CREATE TRIGGER audit_row AFTER INSERT OR UPDATE OR DELETE ON mirrored_exhibitor
    FOR EACH ROW EXECUTE FUNCTION audit_row();

  CREATE FUNCTION audit_removals() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO breach SELECT 'emptied', tenant, event_id FROM (SELECT DISTINCT tenant, event_id FROM removed) AS event
        WHERE NOT EXISTS (SELECT FROM mirrored_exhibitor AS row
          WHERE (row.tenant, row.event_id) = (event.tenant, event.event_id));
      RETURN NULL;
    END $$;
  CREATE TRIGGER audit_removals AFTER DELETE ON mirrored_exhibitor
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION audit_removals();`;

/** What the triggers recorded. */
export class MirrorAudit {
  private constructor(private readonly pool: Pool) {}

  /** The tables of the mirror must exist. */
  static async create(pool: Pool): Promise<MirrorAudit> {
    await pool.query(AUDIT);
    return new MirrorAudit(pool);
  }

  async breaches(): Promise<string[]> {
    const { rows } = await this.pool.query('SELECT DISTINCT what, tenant, event_id FROM breach');
    return rows.map(({ what, tenant, event_id: event }) => `${tenant}/${event}: ${what}`);
  }

  /** Copies by outcome. */
  async outcomes(): Promise<Record<string, number>> {
    const { rows } = await this.pool.query('SELECT outcome, count(*)::int FROM ended GROUP BY outcome');
    return Object.fromEntries(rows.map(({ outcome, count }) => [outcome, count]));
  }

  async clear(): Promise<void> {
    await this.pool.query('TRUNCATE breach');
  }
}
