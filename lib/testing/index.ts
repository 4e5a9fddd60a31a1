export { ExhibitorSandbox, type SandboxOptions } from './exhibitor-sandbox.js';
export type { FaultMatch } from './fault-queue.js';
export type { Fault } from './faults.js';
export type { SandboxExhibitor } from './sandbox-exhibitor.interface.js';
export type { SandboxOperation } from './route.js';
export type { SandboxRequest } from './request-log.js';
export { defaultSeed, type SandboxSeed, type SeedEvent, type SeedPerson, type SeedTenant } from './seed.js';
export type { PublicJwk } from './signing-key.js';
export type { SandboxResponseType, SandboxTenantOptions, TenantOptionsOverrides } from './tenant-options.js';
export { ExhibitorTestingBackend } from './world/testing-backend.js';
export { ExhibitorTestingModule, type OverridableBuilder } from './world/exhibitor-testing.module.js';
export type {
  ExhibitorTestingCall,
  ExhibitorTestingMethod,
  ExhibitorTestingWorld,
} from './world/testing-world.interface.js';
