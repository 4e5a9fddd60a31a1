import config from './jest.config.js';

/** Tests of the packed tarball: it is installed in folders outside the repository, as a host would. */
export default {
  ...config,
  roots: ['<rootDir>/test/package'],
  testPathIgnorePatterns: ['/node_modules/', '/package/hosts/'],
  setupFilesAfterEnv: [],
  testTimeout: 300_000,
  maxWorkers: 1,
};
