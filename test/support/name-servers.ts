import dns, { type LookupAddress, type LookupOptions } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';

/** Threads of libuv for `getaddrinfo`: half of its four. */
const THREADS = 2;

type Answer = LookupAddress[] | 'unknown' | 'silent';

const { lookup } = dns;

/**
 * The names below `.test` as a process finds them: `dns.lookup` takes one of libuv's two threads until the name servers
 * answer. A test cannot make `getaddrinfo` wait without being root.
 */
export class NameServers {
  /** What the operating system answers; default: 127.0.0.1. A name that begins with `silent` blocks its thread. */
  readonly system = new Map<string, Answer>();
  /** How long a silent name blocks its thread, in ms. */
  silence = 3_000;
  /** Names of the look-ups that began. */
  readonly lookups: string[] = [];
  /** Largest number of threads that silent names blocked at once. */
  mostBlocked = 0;
  #blocked = 0;
  #busy = 0;
  readonly #queue: (() => void)[] = [];
  readonly #ends = new Set<() => void>();

  static start(): NameServers {
    const names = new NameServers();
    dns.lookup = names.#lookup as typeof dns.lookup;
    return names;
  }

  /** Restores the function of Node and ends what waits. May be called twice. */
  stop(): void {
    if (dns.lookup === lookup) {
      return;
    }
    dns.lookup = lookup;
    this.silence = 0;
    for (const end of this.#ends) {
      end();
    }
  }

  readonly #lookup = (name: string, ...rest: [LookupOptions, Parameters<LookupFunction>[2]]): void => {
    const [options, callback] = rest;
    if (isIP(name) !== 0) {
      Reflect.apply(lookup, dns, [name, ...rest]);
      return;
    }
    this.#onThread(() => {
      // That of localhost may be what an earlier suite has left.
      if (name !== 'localhost') {
        this.lookups.push(name);
      }
      const answer = this.#answerOf(name);
      if (answer === 'silent') {
        this.#block(() => callback(Object.assign(new Error('no answer'), { code: 'EAI_AGAIN' }), []));
        return;
      }
      this.#leave();
      if (answer === 'unknown') {
        callback(Object.assign(new Error('unknown'), { code: 'ENOTFOUND' }), []);
      } else if (options.all === true) {
        callback(null, answer);
      } else {
        callback(null, answer[0]?.address ?? '', answer[0]?.family);
      }
    });
  };

  #answerOf(name: string): Answer {
    const isSilent = name.startsWith('silent');
    return this.system.get(name) ?? (isSilent ? 'silent' : [{ address: '127.0.0.1', family: 4 }]);
  }

  #onThread(run: () => void): void {
    if (this.#busy >= THREADS) {
      this.#queue.push(() => this.#onThread(run));
      return;
    }
    this.#busy += 1;
    setImmediate(run);
  }

  #leave(): void {
    this.#busy -= 1;
    this.#queue.shift()?.();
  }

  #block(fail: () => void): void {
    this.#blocked += 1;
    this.mostBlocked = Math.max(this.mostBlocked, this.#blocked);
    const end = (): void => {
      clearTimeout(timer);
      this.#ends.delete(end);
      this.#blocked -= 1;
      this.#leave();
      fail();
    };
    const timer = setTimeout(end, this.silence);
    this.#ends.add(end);
  }
}
