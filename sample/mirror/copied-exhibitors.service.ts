import { Inject, Injectable } from '@nestjs/common';
import { Pool } from 'pg';
import { toText } from './postgres-mirror.js';

/** A row of the page. */
export interface CopiedExhibitor {
  eventId: string;
  name: string | null;
  hall: string | null;
  booth: string | null;
}

const MOST_FOUND = 50;

/** The copied rows, as any other table of the host. Requests read them without the service. */
@Injectable()
export class CopiedExhibitors {
  constructor(@Inject(Pool) private readonly pool: Pool) {}

  /** Exhibitors of a tenant with this text in the name, 50 at most. */
  async search(tenant: string, text: string): Promise<CopiedExhibitor[]> {
    const { rows } = await this.pool.query<CopiedExhibitor>(
      `SELECT event_id AS "eventId", exhibitor->>'name' AS name, exhibitor->>'hall' AS hall,
         exhibitor->>'booth' AS booth
       FROM mirrored_exhibitor WHERE tenant = $1 AND strpos(lower(exhibitor->>'name'), lower($2)) > 0
       ORDER BY name, event_id, id LIMIT ${MOST_FOUND}`,
      [toText(tenant), text.replaceAll('\0', '')],
    );
    return rows;
  }
}
