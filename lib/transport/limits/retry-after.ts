/** RFC 9110 §10.2.3 and §5.6.7: whole seconds, or a date in one of the three forms. */
const SECONDS = /^\d+$/;
const HTTP_DATE = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? .*\d{2}:\d{2}:\d{2}/;

/**
 * Milliseconds a `Retry-After` header asks to wait. A date in the past is zero; what is neither seconds nor a date is
 * `undefined`, as if nothing was asked.
 *
 * @param wall milliseconds since 1970, which a date is held against
 */
export function parseRetryAfter(value: string | undefined, wall: number): number | undefined {
  const asked = value?.trim();
  if (asked === undefined) {
    return undefined;
  }
  if (SECONDS.test(asked)) {
    return Math.min(Number(asked) * 1000, Number.MAX_SAFE_INTEGER);
  }
  if (!HTTP_DATE.test(asked)) {
    return undefined;
  }
  // asctime carries no zone and means GMT; Date.parse would take it as local time.
  const at = Date.parse(asked.endsWith('GMT') ? asked : `${asked} GMT`);
  return Number.isNaN(at) ? undefined : Math.max(0, at - wall);
}
