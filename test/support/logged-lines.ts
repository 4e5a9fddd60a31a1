import { afterEach, beforeEach, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';

/** What the package logs in each test of a file, which is not shown. */
export function loggedLines(): { warnings: string[]; errors: string[]; notes: string[] } {
  const lines = { warnings: [] as string[], errors: [] as string[], notes: [] as string[] };
  const levels = { warn: lines.warnings, error: lines.errors, log: lines.notes };
  beforeEach(() => {
    for (const level of ['warn', 'error', 'log'] as const) {
      levels[level].length = 0;
      jest
        .spyOn(Logger.prototype, level)
        .mockImplementation((line: unknown) => void levels[level].push(String(line)));
    }
  });
  afterEach(() => void jest.restoreAllMocks());
  return lines;
}
