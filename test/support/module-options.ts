import type { ExhibitorModuleOptions } from '../../lib/index.js';

/** Some options of the module, without the tenants. */
export type OtherOptions = Partial<Omit<ExhibitorModuleOptions, 'tenant' | 'tenants'>>;

/** The option `tenants`. */
export type TenantsOption = NonNullable<ExhibitorModuleOptions['tenants']>;
