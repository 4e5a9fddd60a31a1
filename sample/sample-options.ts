import type { TenantOptions } from 'nestjs-exhibitor';
import type { TradeEvent } from './events/trade-events.js';

/** Options of the sample. They work with the sandbox and with the real service. */
export interface SampleOptions {
  /** Key of the tenant that the portal belongs to. */
  tenant: string;
  /** Values from onboarding. `login.redirectUri` must be the URL of `/auth/callback`. */
  tenantOptions: TenantOptions;
  /** Secrets that seal the cookies, at least 32 characters each. */
  secrets: string[];
  /** Events on the start page. */
  events: readonly TradeEvent[];
}

/** Injection token of {@link SampleOptions}. */
export const SAMPLE_OPTIONS = Symbol('SAMPLE_OPTIONS');
