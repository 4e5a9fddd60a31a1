/** What a request says in its path, its query or its form: which event it is about, and where it goes on. */
import type { HttpContext } from '../browser/http-context.js';
import { UNREAD_FORM } from '../config/problems/host-problems.js';
import { normalizeReturnTo, safeReturnTo } from '../login/return-to.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import { isRecord } from '../model/json-values.js';
import { declaredOn, isOverHttp } from './execution-context.js';
import type { ExhibitorGuardServices } from './guard-services.js';

/** Parameters of a route that name no event. */
const OTHER_PARAMETERS = ['tenant', 'exhibitorId'];

/** The event of a guarded request, see `ExhibitorIdentityGuard.getEvent`. */
export function eventOf(
  http: HttpContext,
  identity: ExhibitorIdentity | undefined,
  services: ExhibitorGuardServices,
): string | undefined | Promise<string | undefined> {
  if (declaredOn(http.context).isChoosing) {
    if (http.isUnreadForm) {
      services.log.warn(`POST ${http.target.pathname}: ${UNREAD_FORM}`, 'form of choose');
    }
    return fieldOf(http, 'eventId');
  }
  if (services.resolvers.resolveEvent !== undefined) {
    const byDefault = mayUseDefault(http) ? eventOfLogin(http, identity) : undefined;
    return services.ask('resolveEvent', http).then((named) => named ?? byDefault);
  }
  const { params = {}, query } = http.request;
  if (isOverHttp(http) && 'eventId' in params) {
    return textOf(params['eventId']);
  }
  if (!mayUseDefault(http)) {
    return undefined;
  }
  const inQuery = query?.['eventId'] ?? '';
  // The handler may read the event of a list or an object, so that the one of the login does not count.
  return inQuery === '' ? eventOfLogin(http, identity) : textOf(inQuery);
}

/** For reading only: a link of any page may have started the login. */
function eventOfLogin(
  { request: { method } }: HttpContext,
  identity: ExhibitorIdentity | undefined,
): string | undefined {
  return method === 'GET' || method === 'HEAD' ? identity?.eventId : undefined;
}

/** With other parameters of the route, and in GraphQL, the handler may act on another event than that of the query or the login. */
function mayUseDefault(http: HttpContext): boolean {
  const { params = {} } = http.request;
  return isOverHttp(http) && Object.keys(params).every((name) => OTHER_PARAMETERS.includes(name));
}

/** The text of a parameter. None where it is empty, or given more than once. */
export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** What a request of `choose` or of the logout says, in its form or JSON by POST, else in its query. */
export function fieldOf({ request }: HttpContext, name: string): string | undefined {
  const fields = request.method === 'POST' ? request.body : request.query;
  return isRecord(fields) ? textOf(fields[name]) : undefined;
}

/** The `returnTo` of a request, as browsers request it. */
export function returnToOf(value: unknown): string | undefined {
  const returnTo = safeReturnTo(value);
  return returnTo === undefined ? undefined : normalizeReturnTo(returnTo);
}
