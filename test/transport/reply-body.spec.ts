import { constants } from 'node:buffer';
import { describe, expect, it } from '@jest/globals';
import { parseJson, UnreadableBody } from '../../lib/transport/wire/reply-body.js';

describe('a reply that is longer than any text of Node', () => {
  it('cannot be read, and throws nothing: no call waits for the turn in which it is parsed', () => {
    // Without zeros: half a gigabyte that nobody reads takes no memory.
    const reply = Buffer.allocUnsafeSlow(constants.MAX_STRING_LENGTH + 1);
    expect(parseJson(reply)).toBeInstanceOf(UnreadableBody);
  });
});
