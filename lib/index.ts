import type { Exhibitor } from './model/exhibitor-request.interface.js';
import { ExhibitorsService as GenericExhibitorsService } from './exhibitors/exhibitors.service.js';

export { ExhibitorModule } from './exhibitor.module.js';
export type { LoginRoutes } from './nest/login-routes.js';
export type { PageForm, PageView } from './nest/page-view.js';
export type { RenderPage } from './nest/route-settings.js';
export { escapeHtml } from './nest/html-page.js';
export {
  defineExhibitorOptions,
  type ExhibitorModuleOptions,
  type ExhibitorOptionsFactory,
  type SessionMode,
} from './config/exhibitor-options.interface.js';
export { exhibitorOptionsFrom } from './config/environment-options.js';
export type {
  BearerLoginOptions,
  ClientAuth,
  EndpointOptions,
  LoginOptions,
  PrivateKeyAuth,
  ProviderOptions,
  TenantOptions,
  TenantSource,
} from './config/tenant-options.interface.js';
export type { HttpOptions, ModuleHttpOptions } from './config/tenant-options.interface.js';
export type { SharedStore } from './model/shared-store.interface.js';
export type { ExhibitorIdentity } from './model/exhibitor-identity.interface.js';
export type {
  Exhibitor,
  ExhibitorContext,
  ExhibitorRegister,
  ExhibitorRequest,
} from './model/exhibitor-request.interface.js';

export { ExhibitorError, type ExhibitorErrorDetails } from './errors/exhibitor.error.js';
export { isExhibitorError, type AnyExhibitorError } from './errors/is-exhibitor-error.js';
export { HTTP_STATUS_BY_CODE, type ExhibitorErrorCode } from './errors/error-codes.js';
export { ConfigurationError, type ConfigurationProblem } from './errors/configuration.error.js';
export {
  LoginFailedError,
  type LoginFailureDetails,
  type LoginFailureReason,
} from './errors/login-failed.error.js';
export { PaginationDriftError, type PaginationBreach } from './errors/pagination-drift.error.js';
export { TokenRejectedError } from './errors/token-rejected.error.js';

export type {
  DriftMessage,
  LoginMessage,
  LookupMessage,
  RequestMessage,
  StoreMessage,
  TokenMessage,
} from './call/channels.js';

export type { Tenant } from './config/tenant.js';
export { TenantRegistry } from './config/tenant-registry.service.js';
export { TokenService } from './tokens/token.service.js';
export type { GetTokenOptions, InvalidateOptions } from './tokens/token-options.interface.js';
export type { AccessToken } from './tokens/token-lifetime.js';
export { compareExhibitors, type ExhibitorChanges } from './exhibitors/compare-exhibitors.js';
export type {
  CallOptions,
  ListOptions,
  LookupFilter,
  LookupOptions,
  SnapshotOptions,
  StreamOptions,
} from './exhibitors/call-options.interface.js';
export type {
  ExhibitorPage,
  ExhibitorSnapshot,
  PaginationMetadata,
} from './exhibitors/pages/exhibitor-page.interface.js';
export { TokenValidator, type ValidateOptions } from './oidc/token-validator.service.js';
export type { HttpContext } from './browser/http-context.js';
export { ExhibitorLogins, type LoginsToEnd } from './login/exhibitor-logins.service.js';

export { ExhibitorGuardServices } from './nest/guard-services.js';
export { ExhibitorIdentityGuard } from './nest/exhibitor-identity.guard.js';
export { ExhibitorGuard } from './nest/exhibitor.guard.js';
export type { LoginParameters, StartedLogin } from './login/login.interface.js';
export { ExhibitorLoginGuard } from './nest/exhibitor-login.guard.js';
export { ExhibitorCallbackGuard } from './nest/exhibitor-callback.guard.js';
export { ExhibitorLogoutGuard } from './nest/exhibitor-logout.guard.js';
export { ExhibitorBackChannelLogoutGuard } from './nest/exhibitor-back-channel-logout.guard.js';
export { ExhibitorSelection, type RequestPairLike } from './nest/exhibitor-selection.service.js';
export { ExhibitorExceptionFilter } from './nest/exhibitor-exception.filter.js';

export { AllowAnonymous } from './nest/allow-anonymous.decorator.js';
export {
  CurrentEvent,
  CurrentExhibitor,
  CurrentExhibitors,
  CurrentIdentity,
  CurrentTenant,
} from './nest/current.decorators.js';

/**
 * Reads the exhibitors of events: one page, a whole event, or those of a contact. Every Observable is cold. Unsubscribing,
 * or aborting the option `signal`, aborts the request on the wire. Wrong arguments are an error notification with
 * `invalid_argument`; nothing is sent.
 *
 * Every method fails with an {@link ExhibitorError}. Common codes are `invalid_argument`, `unknown_tenant`,
 * `tenant_required`, `token_rejected`, `token_unavailable`, `access_denied`, `request_rejected`, `rate_limited`,
 * `service_unavailable`, `deadline_exceeded`, `malformed_response` and `aborted`.
 *
 * @example
 * const { data, paginationMetadata } = await firstValueFrom(exhibitors.list('world-2026', { tenant: 'acme' }));
 */
export interface ExhibitorsService<T = Exhibitor> extends GenericExhibitorsService<T> {}

/**
 * The class, by which the service is injected. Its last signature is for `app.get(ExhibitorsService)`, which then answers the service of
 * `Exhibitor`: of a class with a type parameter, TypeScript infers `unknown`.
 */
export const ExhibitorsService: typeof GenericExhibitorsService & {
  new (...args: ConstructorParameters<typeof GenericExhibitorsService>): ExhibitorsService;
} = GenericExhibitorsService;
