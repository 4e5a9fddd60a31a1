import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import { ReplyTurns } from '../../lib/transport/wire/reply-body.js';

describe('the turns of replies', () => {
  it('are of six, so that what is requested after them leaves before others are parsed', async () => {
    const turns = new ReplyTurns();
    let parsed = 0;
    for (let reply = 0; reply < 10; reply += 1) {
      turns.take(() => (parsed += 1));
    }
    expect(parsed).toBe(6);
    await nextTurn();
    expect(parsed).toBe(10);
  });
});
