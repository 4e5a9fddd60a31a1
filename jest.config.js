import { availableParallelism } from 'node:os';
import { nativePackages } from './test/setup/native-packages.js';

/** @type {import('jest').Config} */
export default {
  rootDir: '.',
  roots: ['<rootDir>/test'],
  testMatch: ['**/*.spec.ts'],
  testPathIgnorePatterns: [
    '/node_modules/',
    '<rootDir>/test/package/',
    '<rootDir>/test/fleet/',
    '<rootDir>/test/matrix/',
  ],
  testEnvironment: '<rootDir>/test/setup/one-context.js',
  extensionsToTreatAsEsm: ['.ts'],
  moduleNameMapper: {
    '^nestjs-exhibitor$': '<rootDir>/lib/index.ts',
    '^nestjs-exhibitor/testing$': '<rootDir>/lib/development/testing/index.ts',
    '^nestjs-exhibitor/terminus$': '<rootDir>/lib/integrations/terminus/index.ts',
    '^nestjs-exhibitor/redis$': '<rootDir>/lib/integrations/redis/index.ts',
    '^nestjs-exhibitor/mirror$': '<rootDir>/lib/integrations/mirror/index.ts',
    '^nestjs-exhibitor/opentelemetry$': '<rootDir>/lib/integrations/opentelemetry/index.ts',
    '^nestjs-exhibitor/doctor$': '<rootDir>/lib/development/doctor/index.ts',
    '^(\\.{1,2}/.*)\\.js$': '$1',
    ...nativePackages(),
  },
  transform: { '^.+\\.ts$': '@swc/jest' },
  setupFiles: ['<rootDir>/test/setup/ended-contexts.js', '<rootDir>/test/setup/fresh-connections.ts'],
  setupFilesAfterEnv: ['<rootDir>/test/setup/no-secrets.ts'],
  testTimeout: 30_000,
  // One more than there are cores: many suites wait for a browser, a server or a timer. With two more, those that measure times fail.
  maxWorkers: availableParallelism() + 1,
  // Module registries of finished suites stay in memory; a new worker starts faster than a full heap is collected.
  workerIdleMemoryLimit: '700MB',
  testSequencer: '<rootDir>/test/setup/long-suites-first.js',
  coverageProvider: 'v8',
};
