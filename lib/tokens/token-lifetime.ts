/** RFC 6749 leaves it to documentation where `expires_in` is missing; the service documents 3600 s. */
const DEFAULT_LIFETIME = 3_600_000;
const LONGEST_LIFETIME = 86_400_000;
const WIDEST_EARLY_WINDOW = 60_000;
const NUMBER = /^[+-]?\d+(?:\.\d+)?$/;

/**
 * Lifetime of a token in milliseconds, by `expires_in` of its reply. Missing or unusable: the documented default.
 * Zero or negative: over after the call that fetched it. At most 24 h, so that a mistake does not last.
 */
export function lifetimeOf(expiresIn: unknown): number {
  const seconds = secondsOf(expiresIn);
  if (seconds === undefined) {
    return DEFAULT_LIFETIME;
  }
  return Math.min(Math.max(0, seconds * 1000), LONGEST_LIFETIME);
}

function secondsOf(value: unknown): number | undefined {
  if (typeof value === 'number' && !Number.isNaN(value)) {
    return value;
  }
  if (typeof value === 'string' && NUMBER.test(value.trim())) {
    return Number(value);
  }
  return undefined;
}

/**
 * How long before its end a token is renewed, in milliseconds: the last 60 s or tenth of its life. Up to half of that
 * is left to chance, so that processes that started together do not renew together.
 *
 * @param chance from 0 to 1
 */
export function earlyWindow(lifetime: number, chance: number): number {
  return Math.min(WIDEST_EARLY_WINDOW, lifetime / 10) * (1 - chance / 2);
}
