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
  testEnvironment: 'node',
  extensionsToTreatAsEsm: ['.ts'],
  moduleNameMapper: {
    '^nestjs-exhibitor$': '<rootDir>/lib/index.ts',
    '^nestjs-exhibitor/testing$': '<rootDir>/lib/testing/index.ts',
    '^nestjs-exhibitor/redis$': '<rootDir>/lib/redis/index.ts',
    '^(\\.{1,2}/.*)\\.js$': '$1',
  },
  transform: { '^.+\\.ts$': '@swc/jest' },
  setupFiles: ['reflect-metadata', '<rootDir>/test/setup/fresh-connections.ts'],
  setupFilesAfterEnv: ['<rootDir>/test/setup/no-secrets.ts'],
  testTimeout: 30_000,
  // Jest leaves a core free, which is half of a machine with two.
  maxWorkers: '100%',
  // Module registries of finished suites stay in memory; a new worker starts faster than a full heap is collected.
  workerIdleMemoryLimit: '700MB',
  testSequencer: '<rootDir>/test/setup/long-suites-first.js',
  coverageProvider: 'v8',
};
