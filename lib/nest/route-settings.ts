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

/** Without the types of valibot, which hosts need not have. */
export interface RouteSettings {
  path: string;
  backChannelLogout: boolean;
  afterLogin?: string | undefined;
  afterLogout?: string | undefined;
  redirectToLogin: boolean;
  render?: RenderPage | undefined;
}
