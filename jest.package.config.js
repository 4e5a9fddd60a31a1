import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import config from './jest.config.js';

// For the tarball, which the first suite packs.
const packed = mkdtempSync(join(tmpdir(), 'exhibitor-pack-'));
process.env.PACKED = packed;
// The fleet runs beside them. Above the ranges of its workers, and below the ports that systems give to clients (32768).
process.env.FIRST_PORT = '29500';
process.on('exit', () => rmSync(packed, { recursive: true, force: true }));

/** Tests of the packed tarball: it is installed in folders outside the repository, as a host would. */
export default {
  ...config,
  roots: ['<rootDir>/test/package'],
  testPathIgnorePatterns: ['/node_modules/', '/package/hosts/'],
  setupFilesAfterEnv: [],
  testTimeout: 300_000,
  maxWorkers: 2,
};
