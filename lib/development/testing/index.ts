export { ExhibitorSandbox } from '../sandbox/exhibitor-sandbox.js';
export type { Fault, FaultMatch } from '../sandbox/faults.js';
export type { SandboxExhibitor } from '../sandbox/seed/generate-exhibitors.js';
export type { SandboxOperation } from '../sandbox/server/operations.js';
export type { SandboxRequest } from '../sandbox/server/request-log.js';
export {
  defaultSeed,
  type SandboxSeed,
  type SeedEvent,
  type SeedPerson,
  type SeedTenant,
} from '../sandbox/seed/seed.js';
export type {
  EnvironmentOverrides,
  SandboxOptions,
  SandboxTenantOptions,
  TenantOptionsOverrides,
} from '../sandbox/sandbox-options.js';
export {
  ExhibitorTestingBackend,
  type ExhibitorTestingCall,
  type ExhibitorTestingMethod,
  type ExhibitorTestingWorld,
} from './testing-backend.js';
export { ExhibitorTestingModule, type OverridableBuilder } from './exhibitor-testing.module.js';
