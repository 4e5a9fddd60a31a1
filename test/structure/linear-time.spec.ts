import { describe, expect, it } from '@jest/globals';
import { ExhibitorError } from '../../lib/errors/exhibitor.error.js';
import { parseRecords } from '../../lib/exhibitors/parse-replies.js';
import { OwnCookies } from '../../lib/http/cookies.js';
import { isCrossSiteRequest } from '../../lib/http/fetch-metadata.js';
import { HttpContext } from '../../lib/http/http-context.js';
import { safeReturnTo } from '../../lib/login/return-to.js';
import { checkContactEmail, checkEventId } from '../../lib/model/path-parameters.js';
import { hideSecrets, untrustedText } from '../../lib/model/untrusted-text.js';
import { halfHash, isAccessTokenType } from '../../lib/oidc/check-claims.js';
import { unverified } from '../../lib/oidc/verify-signature.js';
import { bearerTokenOf } from '../../lib/session/bearer-identities.service.js';
import { parseRoute } from '../../lib/testing/sandbox/server/operations.js';
import { lifetimeOf } from '../../lib/tokens/token-lifetime.js';
import { parseTokenReply } from '../../lib/tokens/token-reply.js';
import { parseRetryAfter } from '../../lib/transport/limits/retry-policy.js';
import { isJsonType, parseJson, unpack, UnreadableBody } from '../../lib/transport/wire/reply-body.js';
import { expressionsOfSources, findAll } from './expressions.js';

const SIZE = 256 * 1024;
/** Of the inputs that every expression meets: worse than linear time shows at this length as well. */
const COMMON_SIZE = 32 * 1024;
const LIMIT_MS = 100;

/** The head once, the body as often as it fits, the tail once. */
function long(body: string, head = '', tail = '', size = SIZE): string {
  const count = Math.floor((size - head.length - tail.length) / body.length);
  return head + body.repeat(count) + tail;
}

function common(body: string, head = '', tail = ''): string {
  return long(body, head, tail, COMMON_SIZE);
}

/** Milliseconds of processor time that the work takes, which other processes do not change. */
function timeOf(work: () => unknown): number {
  const began = process.cpuUsage();
  try {
    work();
  } catch (error) {
    if (!(error instanceof ExhibitorError || error instanceof UnreadableBody)) {
      throw error;
    }
  }
  return process.cpuUsage(began).user / 1_000;
}

/** The least time of up to five runs: a pause of the machine is not the work. */
function leastTimeOf(work: () => unknown): number {
  let least = Infinity;
  for (let run = 0; run < 5 && least >= LIMIT_MS; run += 1) {
    least = Math.min(least, timeOf(work));
  }
  return least;
}

function expectLinear(text: string, work: () => unknown): void {
  const ms = leastTimeOf(work);
  const beginning = text.slice(0, 40);
  expect({ beginning, took: ms < LIMIT_MS ? 'less' : ms }).toEqual({ beginning, took: 'less' });
}

/** Inputs that make careless expressions slow, whatever they look for. */
const HOSTILE: readonly string[] = [
  ...['a', 'é', '1', ' ', '\t', '/', '//a', '.', '"', '@', '%', '-', '\\', '<', '?', '=', ';', '+'].flatMap(
    (body) => [common(body, '', '\u0001'), common(body, '\u0001', 'a')],
  ),
  common('-eyJ'),
  common('eyJ.'),
  common('eyJa.a.'),
  common('Bearer '),
  common(' ', 'Bearer'),
  common('a@'),
  common('%2540'),
  common('12:34:56'),
  common('\ud800'),
  common('😀'),
];

/** For each expression of the sources: its own worst inputs, beside {@link HOSTILE}. */
const EXPRESSIONS: Readonly<Record<string, readonly string[]>> = {
  [String.raw`doctor/login-steps.ts /(?:redirect|callback)[ _-]ur[il](?![=%&])/i`]: [
    long('redirect_'),
    long('callback'),
  ],
  [String.raw`doctor/login-steps.ts /(?:invalid|unknown)[ _]client|client (?:is |was |id )?(?:not|invalid|unknown)/i`]:
    [long('client is '), long('invalid_')],
  [String.raw`exhibitors/parse-replies.ts /^[\w$-]{1,64}$/`]: [],
  [String.raw`doctor/login-steps.ts /(?:realm|tenant|issuer)\b.{0,80}\b(?:not|unknown|invalid)/i`]: [
    long('realm '),
    long('tenant issuer '),
  ],
  [String.raw`login/exhibitor.strategy.ts /^\P{Cc}*$/u`]: [],
  [String.raw`login/return-to.ts /[\p{Cc}\\]/u`]: [],
  [String.raw`model/path-parameters.ts /[/\\%?#;]/`]: [],
  [String.raw`model/path-parameters.ts /\p{Cc}/u`]: [],
  [String.raw`model/path-parameters.ts /\p{Surrogate}/u`]: [],
  [String.raw`model/path-parameters.ts /[\s\p{Cc}\p{Surrogate}]/u`]: [long('a', '', '@example.com')],
  [String.raw`model/path-parameters.ts /^".+"$/`]: [long('"', '"', 'a'), long('a', '"', 'a')],
  [String.raw`model/untrusted-text.ts /[^\s<>"'()]+/g`]: [long('a ')],
  [String.raw`model/untrusted-text.ts /@|%(?:25)*40|eyJ/`]: [
    long('25', '%'),
    long('%25'),
    long('eyJ', '', '"'),
  ],
  [String.raw`model/untrusted-text.ts /\b(?:Bearer|Basic)$/i`]: [long('Bearer'), long('Basic\t\t')],
  [String.raw`model/untrusted-text.ts /[\p{C}\p{Zl}\p{Zp}]/gu`]: [long('\u202e')],
  [String.raw`oidc/check-claims.ts /^(application\/)?logout\+jwt$/i`]: [long('application/')],
  [String.raw`oidc/parse-metadata.ts /\/$/`]: [],
  [String.raw`oidc/check-claims.ts /^(application\/)?at\+jwt$/i`]: [long('application/')],
  [String.raw`oidc/check-claims.ts /(256|384|512)$/`]: [long('256', '', 'a')],
  [String.raw`options/exhibitor-settings.ts /\/$/`]: [],
  [String.raw`options/exhibitor-settings.ts /^[A-Za-z][\w-]{0,31}$/`]: [long('a')],
  [String.raw`options/value-schemas.ts /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/`]: [
    long(' ', 'a'),
    long(' a', 'a', ' '),
  ],
  [String.raw`options/value-schemas.ts /(?<!\/)\/+$/`]: [long('/', 'a', 'a'), long('a//')],
  [String.raw`session/bearer-identities.service.ts /^Bearer +([\x21-\x7e]+) *$/i`]: [
    long('a', 'Bearer ', '\u0001'),
    long(' ', 'Bearer a', '\u0001'),
    long('a ', 'Bearer '),
  ],
  [String.raw`opentelemetry/index.ts /\/contactEmail\/[^/]+/`]: [long('/contactEmail/', '', '/')],
  [String.raw`testing/sandbox.command.ts /^[\w.:/@-]*$/`]: [long('a', '', '\n')],
  [String.raw`testing/sandbox.command.ts /[^A-Z\d]+/g`]: [long('a', '', 'A')],
  [String.raw`testing/sandbox/console.ts /^(Bearer|Basic) /i`]: [],
  [String.raw`testing/sandbox/console.ts /secret|token|code$|verifier|assertion|password|key/i`]: [
    long('code', '', 'x'),
  ],
  [String.raw`testing/sandbox.command.ts /^https?:[^#]+$/`]: [long('a', 'https:', '#')],
  [String.raw`testing/sandbox.command.ts /^\d{1,9}$/`]: [],
  [String.raw`testing/sandbox/rest-api.ts /^Bearer ([\w.~+/=-]+)$/i`]: [long('a', 'Bearer ', '\u0001')],
  [String.raw`testing/sandbox/console.ts /^\/sandbox(?:[/?]|$)/`]: [],
  [String.raw`testing/sandbox/server/html-page.ts /[&<>"']/g`]: [long('&')],
  [String.raw`testing/sandbox/server/request-log.ts /\?(.*)/s`]: [long('?', '', '\n')],
  [String.raw`testing/sandbox/server/request-log.ts /^Basic (.+)$/i`]: [long('a', 'Basic ', '\n')],
  [String.raw`testing/sandbox/rest-api.ts /^[1-9]\d{0,8}$/`]: [],
  [String.raw`testing/sandbox/server/operations.ts /^\/api\/v1\/exhibitor\/event\/([^/]+)(?:\/contactEmail\/([^/]+))?$/`]:
    [long('a', '/api/v1/exhibitor/event/', '/'), long('/contactEmail', '/api/v1/exhibitor/event/a')],
  [String.raw`tokens/token-lifetime.ts /^[+-]?\d+(?:\.\d+)?$/`]: [long('1', '+', '.'), long('1', '1.', 'a')],
  [String.raw`tokens/token-reply.ts /^[\x21-\x7e]+$/`]: [],
  [String.raw`transport/limits/retry-policy.ts /^\d+$/`]: [],
  [String.raw`transport/limits/retry-policy.ts /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? .*\d{2}:\d{2}:\d{2}/`]:
    [long('a', 'Mon'), long('1', 'Mon, '), long('12:34:', 'Mon, '), long(' ', 'Monday')],
  [String.raw`transport/wire/reply-body.ts /^\s*application\/(?:[\w.!#$&^-]+\+)?json\s*(?:;|$)/i`]: [
    long('a', 'application/'),
    long('a+', 'application/'),
    long(' ', 'application/json', 'a'),
  ],
};

/** Functions that meet text from outside, with their own worst inputs. */
const FUNCTIONS: Readonly<Record<string, [work: (text: string) => unknown, ...worst: string[]]>> = {
  untrustedText: [(text) => untrustedText(text), long('a@b '), long('a@b.example(')],
  hideSecrets: [
    (text) => hideSecrets(text, ['the secret', 'a'.repeat(256), `id:${'ab'.repeat(300)}`, '"<>%']),
    long('the secret'),
    long('Bearer the secret eyJ'),
  ],
  parseRetryAfter: [
    (text) => parseRetryAfter(text, Date.now()),
    long('9'),
    long('1', 'Mon, '),
    long('(', 'Mon, 12:34:56 '),
    long(' 12:34:56', 'Mon, '),
  ],
  isJsonType: [isJsonType, long('a', 'application/')],
  parseJson: [(text) => parseJson(Buffer.from(text)), long('['), long('{"a":'), long('9')],
  unpack: [(text) => unpack(Buffer.from('x'), text, 1).catch(() => undefined)],
  bearerTokenOf: [(text) => bearerTokenOf(contextOf('authorization', text)), long('a', 'Bearer ', '\u0001')],
  receivedCookies: [
    (text) =>
      new OwnCookies({ name: 'exhibitor', sameSite: 'lax' }).received(contextOf('cookie', text), 'login-0'),
    long('a=b;'),
    long(';'),
    long('exhibitor-login-0='),
    long(' exhibitor-login-0='),
    long(' ', 'exhibitor-login-0=', 'exhibitor-login-0=1'),
    long('a="'),
  ],
  checkContactEmail: [checkContactEmail, long('a', '', '@b'), long('"', '', '"@b'), long('a@')],
  checkEventId: [checkEventId],
  safeReturnTo: [safeReturnTo, long('/..', '/'), long('a', '/')],
  parseRecords: [
    (text) =>
      parseRecords(
        [1],
        {
          '~standard': {
            version: 1,
            vendor: 'x',
            validate: () => ({ issues: [{ message: '', path: [text] }] }),
          },
        },
        { tenant: 'a', path: '' },
      ),
  ],
  halfHash: [(text) => halfHash('value', text)],
  isAccessTokenType: [isAccessTokenType],
  unverified: [(text) => unverified(text, 'header'), long('a.'), long('eyJhbGciOiJSUzI1NiJ9')],
  lifetimeOf: [lifetimeOf, long('1', '', '.'), long('0', '1.')],
  parseTokenReply: [
    (text) => parseTokenReply({ access_token: text, token_type: text, scope: text, expires_in: text }, null),
  ],
  isCrossSiteRequest: [
    (text) => isCrossSiteRequest(contextOf('origin', text), undefined, []),
    long('a', 'https://'),
  ],
  parseRoute: [parseRoute, long('a', '/api/v1/exhibitor/event/', '/')],
};

function contextOf(name: string, value: string): HttpContext {
  const unused = () => {
    throw new Error('nothing is answered here');
  };
  const adapter = { setHeader: unused, redirect: unused, reply: unused };
  return new HttpContext(
    { method: 'GET', url: '/', headers: { [name]: value }, params: {}, query: {} },
    undefined,
    adapter,
  );
}

const { literals, built } = expressionsOfSources();

describe('the regular expressions of the sources', () => {
  it('are all in the table of this file, and the table has no other', () => {
    expect(Object.keys(EXPRESSIONS).toSorted()).toEqual(
      [...new Set(literals.map(({ name }) => name))].toSorted(),
    );
  });

  it('are literals: none is built from a text', () => {
    expect(built).toEqual([]);
  });

  it.each(literals)('take linear time: $name', ({ name, pattern }) => {
    for (const text of HOSTILE) {
      expectLinear(text, () => findAll(pattern, text));
    }
    for (const text of EXPRESSIONS[name] ?? []) {
      expectLinear(text, () => findAll(pattern, text));
      expectLinear(text, () => text.replace(pattern, '-'));
    }
  });
});

describe('the functions that meet text from outside', () => {
  it.each(Object.entries(FUNCTIONS))('take linear time: %s', (_name, [work, ...worst]) => {
    for (const text of [...HOSTILE, ...worst]) {
      expectLinear(text, () => work(text));
    }
  });
});

describe('this check', () => {
  // Parts of the text suffice, so that the check itself does not take seconds.
  it.each([
    [/[^\s@<>"'()]+@[^\s@<>"'()]+/g, long('a'), 16_000],
    [/\beyJ[\w-]*\.[\w-]+(?:\.[\w-]*)*/g, long('-eyJ'), SIZE / 8],
    [/\/+$/, long('/'), 20_000],
  ])('finds an expression that is worse than linear: %s', (pattern, text, length) => {
    expect(timeOf(() => findAll(pattern, `${text.slice(0, length)}a`))).toBeGreaterThan(LIMIT_MS);
  });
});
