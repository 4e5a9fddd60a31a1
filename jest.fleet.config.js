import config from './jest.config.js';

/** Tests with several real processes on a real Redis. */
export default {
  ...config,
  roots: ['<rootDir>/test/fleet'],
  testPathIgnorePatterns: ['/node_modules/'],
  testTimeout: 60_000,
  maxWorkers: 1,
};
