/** Lifetime in ms where `expires_in` is missing: the service documents 3600 s. */
const DEFAULT_LIFETIME = 3_600_000;
const LONGEST_LIFETIME = 86_400_000;
const WIDEST_EARLY_WINDOW = 60_000;
const NUMBER = /^[+-]?\d+(?:\.\d+)?$/;

/**
 * Lifetime of a token in ms. A missing or unusable `expires_in` counts as the documented default; zero or a negative value
 * as 0: the token serves only the call that fetched it. At most 24 h.
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
 * How long before its end a token is renewed, in ms: 60 s or 10 % of its lifetime, whichever is less, minus up to half of it
 * at random, so that processes that started together do not renew together.
 *
 * @param random from 0 to 1
 */
export function earlyWindow(lifetime: number, random: number): number {
  return Math.min(WIDEST_EARLY_WINDOW, lifetime / 10) * (1 - random / 2);
}
