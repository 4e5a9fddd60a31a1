import type { TenantOptions } from 'nestjs-exhibitor';
import type { TradeEvent } from './events/trade-events.js';

/** What the sample needs to run, against the sandbox or against the real service. */
export interface SampleOptions {
  /** Key of the tenant whose portal this is. */
  tenant: string;
  /** What was handed out at onboarding. `login.redirectUri` is this host's `/auth/callback`. */
  tenantOptions: TenantOptions;
  /** Seal the cookies; 32 characters or more each. */
  secrets: string[];
  /** The events on the start page. */
  events: readonly TradeEvent[];
}

export const SAMPLE_OPTIONS = Symbol('SAMPLE_OPTIONS');
