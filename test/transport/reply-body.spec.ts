import { constants } from 'node:buffer';
import { describe, expect, it } from '@jest/globals';
import { parseJson, UnreadableBody } from '../../lib/transport/wire/reply-body.js';

describe('a reply that is longer than any text of Node', () => {
  it('cannot be read, and throws nothing: no call waits for the turn in which it is parsed', () => {
    expect(parseJson(Buffer.alloc(constants.MAX_STRING_LENGTH + 1, ' '))).toBeInstanceOf(UnreadableBody);
  });
});
