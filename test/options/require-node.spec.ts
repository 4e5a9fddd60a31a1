import { describe, expect, it } from '@jest/globals';
import { requireNode } from '../../lib/options/require-node.js';

describe('the runtime', () => {
  it('may not be Bun, which is told at boot with what to use instead', () => {
    expect(() => requireNode({ ...process.versions, bun: '1.4.5' })).toThrow(
      'nestjs-exhibitor does not support Bun (1.4.5): run the host with Node.js ^20.19 || ^22.12 || >=24',
    );
    expect(() => requireNode(process.versions)).not.toThrow();
  });
});
