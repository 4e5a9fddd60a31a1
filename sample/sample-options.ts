import type { TenantOptions } from 'nestjs-exhibitor';
import type { Portal } from './portals.js';
import type { Faults } from './tour/faults.js';

/** Options of the sample. They work with the sandbox and with the real service. */
export interface SampleOptions {
  /** Values from onboarding by tenant. `login.redirectUri` must be the URL of `/{tenant}/auth/callback`. */
  tenants: Record<string, TenantOptions>;
  /** One for each tenant. The first is the start page. */
  portals: readonly Portal[];
  /** E-mail addresses of those who may end the logins of others. */
  administrators: readonly string[];
  /** Secrets that seal the cookies, at least 32 characters each. */
  secrets: string[];
  /** The faults of the sandbox. Without it, the tour has no faults to try. */
  faults?: Faults;
}

/** Injection token of {@link SampleOptions}. */
export const SAMPLE_OPTIONS = Symbol('SAMPLE_OPTIONS');
