/** The pages of the sample without scripts, over HTTP. What needs a browser is in `portal.spec.ts`. */
import { readFileSync } from 'node:fs';
import { afterEach, describe, expect, it } from '@jest/globals';
import { useHost } from '../support/lifetimes.js';
import { Visitor } from '../support/visitor.js';
import { decoded, Guest } from './guest.js';
import { exhibitorsOf, startSample } from './running-sample.js';

const sample = useHost(() => startSample());
let guest: Guest;
afterEach(() => {
  sample.sandbox.clearFaults();
  sample.sandbox.signInAs(undefined);
});

const mine = (event = 'regional-2026'): string => `${sample.url}/events/${event}/mine`;

/** Somebody at a page of the portal, after the login. */
async function logIn(person: string, path = '') {
  guest = new Guest();
  sample.sandbox.signInAs(person);
  return guest.open(`${sample.url}/auth/login?returnTo=${encodeURIComponent(`/acme${path}`)}`);
}

describe('The start page', () => {
  it('opens while the service fails', async () => {
    sample.sandbox.failNext('list', { kind: 'status', status: 403 }, Infinity);
    const page = await new Guest().open(sample.url);
    expect(page.text.match(/Size not known right now/g)).toHaveLength(5);
  });

  it('is where a login leads that names no page, also of the second tenant', async () => {
    guest = new Guest();
    sample.sandbox.signInAs('olga.one');
    const page = await guest.open(`${sample.url}/../globex/auth/login`);
    expect(page.heading).toBe('Where industries meet');
    expect(page.text).toContain('Logged in as olga.one@example.com');
  });

  it('leads to a second tenant, where a login ends that of the first', async () => {
    const home = await logIn('olga.one');
    const other = await guest.click(home, 'Globex Expo');
    expect(other.heading).toBe('Where industries meet');
    expect(other.text).not.toContain('Logged in as');
    const booth = await guest.click(other, 'My booth at Regional Craft Fair 2026');
    expect(booth.text).toContain('globex-regional-2026-');
    expect((await guest.open(sample.url)).text).not.toContain('Logged in as');
  });
});

describe('The own exhibitor', () => {
  it('is shown to a person with one', async () => {
    const page = await logIn('olga.one', '/events/regional-2026/mine');
    const [own] = exhibitorsOf(sample, 'olga.one', 'regional-2026');
    expect([page.url, page.summary]).toEqual([mine(), `200 ${own?.['name']}`]);
    expect(page.text).not.toContain('Another exhibitor');
  });

  it('is missed by a person with none, with a link to all events', async () => {
    const page = await logIn('nora.none', '/events/regional-2026/mine');
    expect(page.summary).toBe('403 You have no exhibitor here');
    expect(page.text).toContain('Logged in as nora.none@example.com');
    expect((await guest.click(page, 'All events')).heading).toBe('Your booth at every event');
  });

  it('cannot be that of another person', async () => {
    await logIn('sam.several');
    const [other] = exhibitorsOf(sample, 'olga.one', 'regional-2026');
    const choice = { eventId: 'regional-2026', exhibitorId: String(other?.id) };
    const refused = await guest.post(`${sample.url}/auth/choose`, choice);
    expect(refused.summary).toBe('400 This does not work');
    expect((await guest.open(mine())).heading).toBe('Choose an exhibitor');
  });

  it('shows that the service fails, without internal details, with a link that tries again', async () => {
    await logIn('olga.one');
    const fault = { kind: 'status', status: 500, body: 'stack trace of the service' } as const;
    sample.sandbox.failNext('lookup', fault, Infinity);
    const page = await guest.open(mine('national-2026'));
    expect(page.summary).toBe('503 Not available at the moment');
    expect(page.html).not.toMatch(/stack trace|127\.0\.0\.1|\/api\/v1|Error:/);
    sample.sandbox.clearFaults();
    const again = await guest.click(page, 'Try again');
    expect(again.text).toContain('Your exhibitor at National Building Show 2026.');
  });

  it('is shown as text, with any characters, as in the list', async () => {
    const name = `<img src=x onerror="document.title='hacked'"> & <script>document.title='hacked'</script>`;
    const record = { id: 'x', name, contactEmails: ['olga.one@example.com'] };
    sample.sandbox.setExhibitors('boutique-2026', [record], 'acme');
    const page = await logIn('olga.one', '/events/boutique-2026/mine');
    expect(page.heading).toBe(name);
    expect(page.html).not.toContain('<img src=x');
    const list = await guest.open(`${sample.url}/events/boutique-2026/exhibitors?page=1`);
    expect(list.all(ROW)).toEqual([name]);
  });
});

describe('The login', () => {
  const forEvent = '/auth/login?eventId=regional-2026&returnTo=%2Facme%2Fevents%2Fregional-2026%2Fmine';

  it('is asked for where nobody is logged in, and returns to the page', async () => {
    guest = new Guest();
    const provider = await guest.open(mine());
    expect((await guest.post(provider.url, { person: 'olga.one' })).url).toBe(mine());
  });

  it('may be cancelled, reloaded, and started again for the same event and page', async () => {
    guest = new Guest();
    const provider = await guest.open(`${sample.url}${forEvent}`);
    const cancelled = await guest.post(provider.url, { cancel: 'yes' });
    expect(cancelled.summary).toBe('401 The login was cancelled');
    expect((await guest.open(cancelled.url)).summary).toBe(cancelled.summary);
    const again = await guest.click(cancelled, 'Use another account');
    expect(again.heading).toBe('Sign in');
    expect((await guest.post(again.url, { person: 'olga.one' })).url).toBe(mine());
  });

  it('starts again for the same page after the provider was down', async () => {
    sample.sandbox.failNext('token', { kind: 'status', status: 503 }, Infinity);
    const failed = await logIn('olga.one', '/events/regional-2026/mine');
    expect(failed.summary).toBe('503 Not available at the moment');
    expect(failed.html).toContain('class="tour-banner failed"');
    sample.sandbox.clearFaults();
    expect((await guest.click(failed, 'Log in again')).url).toBe(mine());
  });

  it('may be gone back to when it is finished', async () => {
    sample.sandbox.signInAs('olga.one');
    const { origin } = new URL(sample.url);
    guest = new Guest();
    expect((await guest.open(`${sample.url}${forEvent}`)).url).toBe(mine());
    const callback = guest.redirects.find((url) => url.startsWith(`${origin}/acme/auth/callback`)) ?? '';
    const next = await guest.open(callback);
    expect(next.url).toBe(mine());
    expect(next.text).toContain('Logged in as olga.one@example.com');
  });

  it.each([
    ['uma.unverified', 'Your e-mail address is not confirmed'],
    ['mo.mailless', 'Your account has no e-mail address'],
  ])('tells %s what is missing', async (person, heading) => {
    expect((await logIn(person)).heading).toBe(heading);
  });

  it('of another person is ended by an administrator, and by nobody else', async () => {
    // Nobody who logs in again within the second, which ends such a login too.
    await logIn('zoe.fair');
    const stolen = guest;
    const people = `${sample.url}/people`;
    expect((await stolen.open(people)).summary).toBe('403 You have no access');
    const home = await logIn('olga.one');
    const page = await guest.click(home, 'People who have logged in');
    const buttons = [...page.html.matchAll(/name="subject" value="([^"]*)">(.*?)<\/button>/gs)];
    const [, subject = ''] = buttons.find(([, , text]) => text?.includes('zoë+fair@example.com')) ?? [];
    const elsewhere = { 'sec-fetch-site': 'same-site', origin: 'http://127.0.0.1:1' };
    expect((await guest.post(`${people}/end-logins`, { subject }, elsewhere)).reply.status).toBe(400);
    expect((await stolen.open(people)).reply.status).toBe(403);
    expect((await guest.post(`${people}/end-logins`, { subject })).summary).toBe('200 People');
    expect((await stolen.post(`${people}/end-logins`, { subject })).reply.status).toBe(401);
  });
});

describe('An address', () => {
  const unknown = '404 Page not found';
  const invalid = '400 This does not work';
  it.each([
    ['/nowhere', unknown],
    ['/../unknown', unknown],
    ['/events/unheard-of/exhibitors', unknown],
    ['/events/unheard-of/mine', unknown],
    ['/auth/login?eventId=unheard-of', unknown],
    ['/../globex/events/boutique-2026/mine', unknown],
    ['/auth/logout', unknown],
    ['/auth/choose?eventId=unheard-of', unknown],
    ['/events/world-2026/exhibitors?page=none', invalid],
    ['/events/world-2026/exhibitors?page=0', invalid],
    ['/events/%ff/mine', invalid],
  ])('%s is refused: %s', async (path, summary) => {
    guest = new Guest();
    if (summary !== unknown) {
      await logIn('olga.one');
    }
    expect((await guest.open(`${sample.url}${path}`)).summary).toBe(summary);
  });
});

describe('The list of an event', () => {
  const list = () => `${sample.url}/events/world-2026/exhibitors`;
  const names = () => sample.sandbox.exhibitors('world-2026', 'acme').map(({ name }) => String(name));

  it('has pages', async () => {
    const first = await logIn('olga.one', '/events/world-2026/exhibitors');
    expect(first.text).toContain('1,234 exhibitors, page 1 of 25');
    const second = await guest.click(first, 'Next');
    expect(second.text).toContain('page 2 of 25');
    expect(second.all(ROW)).toEqual(names().slice(50, 100));
    const last = await guest.open(`${list()}?page=25`);
    expect(last.all(ROW)).toHaveLength(34);
    expect(() => last.link('Next')).toThrow('no link');
  });

  it('may be empty, and has no page beyond the last', async () => {
    const empty = await logIn('olga.one', '/events/empty-2026/exhibitors');
    expect(empty.text).toContain('Nobody has registered for this event yet.');
    expect(empty.html).not.toMatch(/type="search"|<progress/);
    const beyond = await guest.open(`${list()}?page=999`);
    expect(beyond.text).toContain('There is no page 999: the list of 1,234 exhibitors has 25 pages.');
    expect((await guest.click(beyond, 'Last page')).text).toContain('page 25 of 25');
  });

  it('is searched by words in any column', async () => {
    await logIn('olga.one');
    const found = await guest.open(`${list()}/search?q=ZENITH+hall`);
    expect(found.text).toContain('31 exhibitors for “ZENITH hall”');
    expect(found.all(ROW)).toEqual(names().filter((name) => name.startsWith('Zenith')));
    const none = await guest.open(`${list()}/search?q=${encodeURIComponent('"><b>none')}`);
    expect(none.text).toContain('No exhibitor has “"><b>none”');
  });
});

describe('The panel', () => {
  const banner = /role="status" data-tour-banner>(.*?)<\/p>/g;

  it('shows the code of the page as it is in the file, and its requests', async () => {
    const page = await logIn('olga.one', '/events/world-2026/mine');
    const file = readFileSync(new URL('../../sample/booth/booth.controller.ts', import.meta.url), 'utf8');
    const [, code = ''] = /aria-label="Code"><code>(.*?)<\/code>/s.exec(page.html) ?? [];
    const [head = '', method = ''] = decoded(code.replaceAll('<wbr>', '')).split('  // …');
    expect(method).toContain('@CurrentExhibitor() exhibitor: Booth');
    expect(file).toContain(head.trimEnd());
    expect(file).toContain(method.trimEnd());
    // The login and the page that it led to.
    const requests = page.all(/<li(?: class="failed")?>(<span>.*?)<\/li>/g).join();
    expect(requests).toMatch(/login.*started.*code.*200.*contactEmail.*200.*lookups.*miss/s);
    expect(requests).not.toContain('olga');
  });

  it('causes faults, and the page tells what the module did', async () => {
    await logIn('olga.one', '/events/national-2026/mine');
    const returnTo = '/acme/events/national-2026/mine';
    const press = (fault: string) =>
      guest.post(`${new URL(sample.url).origin}/tour/fault`, { fault, returnTo });
    for (const [fault, told] of [
      ['error', 'The reply was 500 twice. The module tried three times and got the answer.'],
      ['reset', 'A reply broke off, or took longer than 2 s. The module tried twice and got the answer.'],
      [
        'revoked',
        'The service refused the access token (401). The module renewed it and sent the request again.',
      ],
      ['provider', 'The access token in memory is valid, so that the provider was not needed.'],
      ['down', 'Your exhibitors were served from the cache, without a request.'],
    ] as const) {
      // A token that is younger is not renewed because of a 401.
      sample.clock.skip(fault === 'revoked' ? 10_000 : 0);
      expect((await press(fault)).all(banner)).toEqual([told]);
    }
    const failed = await guest.open(`${sample.url}/events/national-2026/exhibitors?page=1`);
    expect(failed.heading).toBe('Not available at the moment');
    expect(failed.all(banner).join()).toContain('gave up');
    expect(failed.html).toContain('class="tour-banner failed"');
    expect((await press('')).all(banner)).toEqual(['']);
  });
});

describe.each(['express', 'fastify'] as const)('The form of a fault on %s', (platform) => {
  const other = useHost(() => startSample(platform));
  /** What a browser sends of the page with the form; `HOST` stands for the origin of the sample. */
  const press = async (sent: Record<string, string>): Promise<[status: number, faults: number]> => {
    const { origin } = new URL(other.url);
    const headers = Object.fromEntries(
      Object.entries(sent).map(([name, value]) => [name, value.replace('HOST', origin)]),
    );
    const form = { fault: 'down', returnTo: '/acme' };
    other.sandbox.clearFaults();
    const { status } = await new Visitor().visit(`${origin}/tour/fault`, { form, headers });
    const faults = await fetch(`${other.sandbox.url}/sandbox/faults`);
    return [status, Object(await faults.json()).length];
  };

  it.each<Record<string, string>>([
    { 'sec-fetch-site': 'same-origin', origin: 'HOST' },
    { 'sec-fetch-site': 'same-site', origin: 'HOST' },
    { 'sec-fetch-site': 'none' },
    { origin: 'HOST' },
    {},
  ])('is taken from a page of the sample: %j', async (sent) => {
    expect(await press(sent)).toEqual([303, 1]);
  });

  it.each<Record<string, string>>([
    { 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' },
    { 'sec-fetch-site': 'same-site', origin: 'http://127.0.0.1:1' },
    { 'sec-fetch-site': 'cross-site', origin: 'null' },
    { 'sec-fetch-site': 'cross-site' },
    { origin: 'https://evil.example' },
    { origin: 'http://127.0.0.1' },
    { origin: 'null' },
  ])('is refused from any other: %j', async (sent) => {
    expect(await press(sent)).toEqual([400, 0]);
  });
});

/** The name in a row of a list. */
const ROW = /<th scope="row"[^>]*>(.*?)<\/th>/g;
