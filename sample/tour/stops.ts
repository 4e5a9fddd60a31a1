/** What the panel says about a page. Text in backticks is code. */
export interface Stop {
  /** What the page shows of the module. */
  shows: string;
  tries: readonly string[];
  /** The method behind the page, and its file below `sample/`. */
  file: string;
  method: string;
}

const STOPS: Readonly<Record<string, Stop>> = {
  home: {
    shows:
      '`@AllowAnonymous()` opens the page; the guard sets the user where somebody is logged in. `ExhibitorsService.list` counts each event, kept for a minute by the sample.',
    tries: ['Open “My booth” without a login: the login leads back to it.', 'Open the other portal below.'],
    file: 'events/home.controller.ts',
    method: 'home',
  },
  booth: {
    shows:
      '`ExhibitorGuard` asks the service for the exhibitors of your e-mail address; `@CurrentExhibitor()` is the chosen or the only one. The answer is cached: here 10 s, by default 60 s.',
    tries: [
      'Reload at once: the cache answers, without a request.',
      'Reload after 10 s with “Service down”: the last good answer serves.',
    ],
    file: 'booth/booth.controller.ts',
    method: 'mine',
  },
  choose: {
    shows:
      'A handler with `@CurrentExhibitor()` leads people with several exhibitors here: `auth/choose` is a route of the module, this is its page in the layout of the sample (`render`). Only the own exhibitors are accepted.',
    tries: ['Choose one: the choice is kept for this event.'],
    file: 'pages/module-pages.ts',
    method: 'render',
  },
  event: {
    shows:
      '`ExhibitorIdentityGuard` requires a login, no exhibitor. `list` reads the page that you see without scripts; `pages` reads the whole event for the live list, four pages ahead.',
    tries: [
      'Choose “500” below: the page waits for the retries.',
      'Press Stop: the requests under way are aborted.',
    ],
    file: 'events/event.controller.ts',
    method: 'page',
  },
  search: {
    shows:
      '`stream` emits the exhibitors one by one, in order. `take` ends the reading when enough is found.',
    tries: [
      'Search for “a”: few pages are read. Search for “zenith pumps”: all of them.',
      'Many searches need a database of your own: stop the sample and run `npm run mirror`.',
    ],
    file: 'events/search.controller.ts',
    method: 'search',
  },
  people: {
    shows:
      '`ExhibitorLogins.end` ends all logins of a user, in every browser and with every copy of a cookie. A guard of the sample lets administrators pass.',
    tries: [
      'Log in as Sam in another browser, end his logins here, and reload there.',
      'Log in as Nora: she is no administrator, and the page is 403.',
    ],
    file: 'people/people.controller.ts',
    method: 'endLogins',
  },
  login: {
    shows:
      'A failed login leads to `auth/failed`, a route of the module. `render` shows its page in the layout of the sample; a new login leads to the same event and page.',
    tries: [
      'Log in as Uma or Mo: each has another reason.',
      'Cancel at the provider, then log in: you arrive where you wanted.',
    ],
    file: 'pages/module-pages.ts',
    method: 'render',
  },
  problem: {
    shows:
      'Guards and services fail with an `ExhibitorError` and a stable `code`. People see a page, programs JSON. `PageFilter` of the sample extends `ExhibitorExceptionFilter`, so that all other errors are pages too.',
    tries: ['If you chose a fault below: remove it and try again.'],
    file: 'pages/module-pages.ts',
    method: 'render',
  },
};

/** The stop of a view. */
export function stopOf(view: string): Stop {
  const stop = STOPS[view];
  if (!stop) {
    throw new Error(`the tour does not know the view ${view}`);
  }
  return stop;
}
