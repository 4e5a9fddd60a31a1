import * as v from 'valibot';

/** Selected exhibitor by event, the newest last. */
export type Selections = readonly (readonly [eventId: string, exhibitorId: string])[];

const MAX_SELECTIONS = 20;

const selectionsSchema = v.array(v.tuple([v.string(), v.string()]));

/** The selections of a cookie or of the host's session; none where it has another form. */
export function parseSelections(value: unknown): Selections {
  const parsed = v.safeParse(selectionsSchema, value);
  return parsed.success ? parsed.output : [];
}

/** The selections with that of one event replaced, or removed where `exhibitorId` is `undefined`. */
export function withSelection(
  before: Selections,
  eventId: string,
  exhibitorId: string | undefined,
): Selections {
  const others = before.filter(([event]) => event !== eventId);
  const after = exhibitorId === undefined ? others : [...others, [eventId, exhibitorId] as const];
  return after.slice(-MAX_SELECTIONS);
}
