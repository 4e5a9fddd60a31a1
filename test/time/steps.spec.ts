import { describe, expect, it } from '@jest/globals';
import { runSteps, settled, type Steps } from '../../lib/time/steps.js';

function* sum(...answers: (number | PromiseLike<number>)[]): Steps<number> {
  let total = 0;
  for (const answer of answers) {
    total += yield* settled(answer);
  }
  return total;
}

function* one<T>(answer: T | PromiseLike<T>): Steps<T> {
  return yield* settled(answer);
}

function* guarded(answer: number | Promise<number>): Steps<string> {
  try {
    return `got ${yield* settled(answer)}`;
  } catch (error) {
    return `caught ${String(error)}`;
  }
}

describe('steps', () => {
  it('answer no promise where none of them does', () => {
    expect(runSteps(sum(1, 2, 3))).toBe(6);
  });

  it('wait for promises and for other thenables, in their order', async () => {
    // oxlint-disable-next-line unicorn/no-thenable
    const thenable: PromiseLike<number> = { then: (...next) => Promise.resolve(4).then(...next) };
    const answer = runSteps(sum(1, Promise.resolve(2), thenable, 8));
    expect(answer).toBeInstanceOf(Promise);
    expect(await answer).toBe(15);
  });

  it('keep the value undefined of a promise', async () => {
    const answer = runSteps(one(Promise.resolve(undefined)));
    expect(await answer).toBeUndefined();
  });

  it('throw at once what a step throws at once, and reject with what a promise rejects with', async () => {
    function* failing(): Steps<never> {
      yield* settled(1);
      throw new Error('at once');
    }
    expect(() => runSteps(failing())).toThrow('at once');
    await expect(runSteps(sum(1, Promise.reject(new Error('later')), 2))).rejects.toThrow('later');
  });

  it('can catch a rejection and go on', async () => {
    expect(await runSteps(guarded(Promise.reject(new Error('no'))))).toBe('caught Error: no');
    expect(await runSteps(guarded(Promise.resolve(1)))).toBe('got 1');
  });
});
