export { ExhibitorSandbox } from './sandbox/exhibitor-sandbox.js';
export type { FaultMatch } from './sandbox/fault-queue.js';
export type { Fault } from './sandbox/faults.js';
export type { SandboxExhibitor } from './sandbox/generate-exhibitors.js';
export type { SandboxOperation } from './sandbox/route.js';
export type { SandboxRequest } from './sandbox/request-log.js';
export {
  defaultSeed,
  type SandboxSeed,
  type SeedEvent,
  type SeedPerson,
  type SeedTenant,
} from './sandbox/seed.js';
export type { PublicJwk } from './sandbox/signing-key.js';
export type {
  SandboxOptions,
  SandboxResponseType,
  SandboxTenantOptions,
  TenantOptionsOverrides,
} from './sandbox/sandbox-options.js';
export { ExhibitorTestingBackend } from './module/testing-backend.js';
export { ExhibitorTestingModule, type OverridableBuilder } from './module/exhibitor-testing.module.js';
export type {
  ExhibitorTestingCall,
  ExhibitorTestingMethod,
  ExhibitorTestingWorld,
} from './module/testing-world.interface.js';
