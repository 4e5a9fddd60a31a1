/**
 * Steps that may answer a promise. An `async` function waits for the microtask queue at each `await`, also where the answer is
 * there already, and creates at least one promise. Steps wait only for promises: a guard whose answers are all in memory is
 * done in the same turn, without any promise.
 */

/** A value, or a promise of it. */
export type MaybePromise<T> = T | Promise<T>;

/** A sequence of steps that answers `R`. Between them, it yields the promises to wait for. */
export type Steps<R> = Generator<PromiseLike<void>, R, void>;

/**
 * Runs steps, in the same turn where none of them answers a promise.
 *
 * @example
 * function* userOf(request: Request): Steps<User> {
 *   const tenant = yield* settled(tenantOf(request));
 *   return yield* settled(findUser(tenant));
 * }
 * const user = runSteps(userOf(request));
 */
export function runSteps<R>(steps: Steps<R>): MaybePromise<R> {
  const first = steps.next();
  return first.done === true ? first.value : waitAndRun(steps, first.value);
}

async function waitAndRun<R>(steps: Steps<R>, first: PromiseLike<void>): Promise<R> {
  let step: IteratorResult<PromiseLike<void>, R> = { done: false, value: first };
  while (step.done !== true) {
    step = await step.value.then(
      () => steps.next(),
      (error: unknown) => steps.throw(error),
    );
  }
  return step.value;
}

/** One step: the value itself, or that of the promise. Rejections are thrown. As `await`, it accepts any thenable. */
export function settled<T>(answer: T | PromiseLike<T>): Step<T> {
  return isPromiseLike(answer) ? awaited(answer) : new Done(answer);
}

/** What {@link settled} answers, for `yield*`. */
type Step<T> = Iterable<PromiseLike<void>, T, void>;

/** A step without a promise. It costs less than a generator, and most steps are such. */
class Done<T> implements Step<T> {
  readonly done = true;

  constructor(readonly value: T) {}

  [Symbol.iterator](): this {
    return this;
  }

  next(): this {
    return this;
  }
}

function* awaited<T>(answer: PromiseLike<T>): Steps<T> {
  const values: T[] = [];
  yield answer.then((value) => void values.push(value));
  // A value may be undefined.
  for (const value of values) {
    return value;
  }
  throw new Error('a step continued before its promise was settled');
}

/** True for promises and other objects with a method `then`. */
export function isPromiseLike<T>(value: T | PromiseLike<T>): value is PromiseLike<T> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function';
}
