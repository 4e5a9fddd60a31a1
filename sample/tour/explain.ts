import type { LoginMessage, LookupMessage, RequestMessage, TokenMessage } from 'nestjs-exhibitor';

/** A message of one of the channels. */
export type Entry =
  | ({ channel: 'request' } & RequestMessage)
  | ({ channel: 'token' } & TokenMessage)
  | ({ channel: 'lookup' } & LookupMessage)
  | ({ channel: 'login' } & LoginMessage);

/** For the banner. */
export interface Explanation {
  /** What the module did about failures. */
  sentences: string[];
  /** True where that did not help. */
  hasFailed: boolean;
}

export function explain(entries: readonly Entry[], fault: string | undefined): Explanation {
  const requests = entries
    .filter((entry) => entry.channel === 'request')
    .filter(({ code }) => code !== 'aborted');
  const statuses = requests.filter(hasFailed).map(({ status = 0 }) => status);
  const errors = statuses.filter((status) => status >= 500);
  const last = requests.findLast(({ attempt }) => attempt > 1);
  const has = (channel: string, outcome: string) =>
    entries.some((entry) => entry.channel === channel && 'outcome' in entry && entry.outcome === outcome);
  const gaveUp = last !== undefined && hasFailed(last);
  const sentences = [
    statuses.includes(401) &&
      'The service refused the access token (401). The module renewed it and sent the request again.',
    statuses.includes(429) && 'The service answered 429. The module waited as long as Retry-After said.',
    errors.length > 0 &&
      `The reply was ${[...new Set(errors)].join(' or ')}${errors.length > 1 ? ` ${times(errors.length)}` : ''}.`,
    statuses.some((status) => status < 400) && 'A reply broke off, or took longer than 2 s.',
    last && `The module tried ${times(last.attempt)} and ${gaveUp ? 'gave up' : 'got the answer'}.`,
    has('login', 'failed') &&
      errors.length > 0 &&
      'A code is redeemed only once, so that the login has to start again.',
    has('lookup', 'stale') && 'Your exhibitors are the last good answer, from the cache (staleIfError).',
    fault !== undefined &&
      has('lookup', 'hit') &&
      'Your exhibitors were served from the cache, without a request.',
    fault === 'provider' &&
      has('token', 'hit') &&
      !has('login', 'failed') &&
      'The access token in memory is valid, so that the provider was not needed.',
  ];
  return {
    sentences: sentences.filter((sentence) => typeof sentence === 'string'),
    hasFailed: gaveUp || has('login', 'failed'),
  };
}

/** Equal messages as one line, with their number: a list of 25 pages is 25 requests. */
export function summarize(entries: readonly Entry[]) {
  const lines = new Map<
    string,
    { what: string; result: string; isFailure: boolean; times: number; ms: number }
  >();
  for (const entry of entries) {
    const line = lineOf(entry);
    const key = `${line.what} ${line.result}`;
    const { times: before = 0, ms = 0 } = lines.get(key) ?? {};
    lines.set(key, { ...line, times: before + 1, ms: Math.max(ms, line.ms) });
  }
  return [...lines.values()];
}

function lineOf(entry: Entry) {
  if (entry.channel !== 'request') {
    const reason = ('reason' in entry && entry.reason) || ('code' in entry && entry.code);
    const result = reason ? `${entry.outcome}: ${reason}` : entry.outcome;
    return { what: NAMES[entry.channel], result, isFailure: entry.outcome === 'failed', ms: 0 };
  }
  const { operation, template, attempt, status, code, durationMs } = entry;
  const path = template.startsWith('/') ? template.replace('/api/v1/exhibitor', '…') : '';
  const what = `${operation} ${path}${attempt > 1 ? ` (attempt\u00a0${attempt})` : ''}`;
  return {
    what,
    result: String(status !== undefined && status >= 400 ? status : (code ?? status)),
    // Who has read enough aborts the rest.
    isFailure: hasFailed(entry) && code !== 'aborted',
    ms: Math.round(durationMs),
  };
}

const NAMES = { token: 'access token', lookup: 'cache of lookups', login: 'login' };

function hasFailed({ status, code }: RequestMessage): boolean {
  return code !== undefined || (status ?? 0) >= 400;
}

const times = (count: number) => ['never', 'once', 'twice', 'three times'][count] ?? `${count} times`;
