import config from './jest.package.config.js';

/** One cell of the matrix; `test/matrix/run.mjs` runs it for each. */
export default {
  ...config,
  roots: ['<rootDir>/test/matrix'],
};
