/** What a host says of the routes of the module, but for their guards. */
import * as v from 'valibot';
import { callable } from '../config/value-schemas.js';
import type { HttpContext } from '../browser/http-context.js';
import { normalizeReturnTo, safeReturnTo } from '../login/return-to.js';
import type { PageView } from './page-view.js';

/** The checked `routes`; absent where the module registers none. */
export const ROUTE_SETTINGS = Symbol('nestjs-exhibitor:route-settings');

/** Renders a page of the routes in the layout of the host: HTML. */
export type RenderPage = (view: PageView, http: HttpContext) => string | Promise<string>;

/** No pattern and no dot segment, which browsers and routers would read differently. */
const PATH = /^\/?((:[a-z_]\w*|[\w~-][\w.~-]*)(\/|$))+$/i;
const PATH_EXPECTED = "must be a path such as 'auth' or ':tenant/auth'";

const isPath = (value: unknown): boolean => safeReturnTo(value) !== undefined;

/** A page of this origin, as browsers request it. */
const page = v.pipe(
  v.custom<string>(isPath, "must be a path of this origin, such as '/home'"),
  v.transform((path) => normalizeReturnTo(path)),
);

/** @internal */
export const routeEntries = {
  path: v.pipe(v.string(PATH_EXPECTED), v.regex(PATH, PATH_EXPECTED)),
  backChannelLogout: v.optional(v.boolean('must be true or false'), false),
  afterLogin: v.optional(page),
  afterLogout: v.optional(page),
  redirectToLogin: v.optional(v.boolean('must be true or false'), true),
  render: v.optional(callable<RenderPage>()),
};

/** The routes of the module, and their pages. Once they are checked, with their defaults. */
export interface RouteSettings {
  /** How their paths begin: `auth`, or `:tenant/auth`. A global prefix comes before it; they have no version. */
  path: string;
  /** Registers `POST <path>/backchannel-logout` with {@link ExhibitorBackChannelLogoutGuard} too. Default false. */
  backChannelLogout?: boolean | undefined;
  /** Path of this origin for after a login or a choice without `returnTo`. Default: the global prefix, else `/`. */
  afterLogin?: string | undefined;
  /** The same for after a logout: a page that needs no user. */
  afterLogout?: string | undefined;
  /** Whether guards lead navigations without a user to the login. With `false` they get the page with 401. Default true. */
  redirectToLogin?: boolean | undefined;
  /**
   * Renders all pages in the layout of the host: returns HTML, also as a promise. No text of a view is escaped. Where it throws, that is
   * logged, and the page of the module is shown.
   *
   * @example
   * render: ({ title, text, loginUrl }) => layout(`<h1>${escapeHtml(title)}</h1><p>${escapeHtml(text)}</p> …`),
   */
  render?: RenderPage | undefined;
}
