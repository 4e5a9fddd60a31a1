import dns, { type LookupOptions } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';

/** Threads of libuv for `getaddrinfo`: half of its four. */
const THREADS = 2;

/** How long a silent name blocks its thread, in ms. */
const SILENCE = 3_000;

const { lookup } = dns;

/**
 * The names below `.test` as a process finds them: `dns.lookup` takes one of libuv's two threads until the name servers
 * answer. A test cannot make `getaddrinfo` wait without being root.
 */
export class NameServers {
  /** Addresses that the operating system answers; default: 127.0.0.1. A name that begins with `silent` blocks its thread. */
  readonly system = new Map<string, string[]>();
  /** Further names that block their thread from now on. */
  readonly silent = new Set<string>();
  /** Names of the look-ups that began. */
  readonly lookups: string[] = [];
  /** Largest number of threads that silent names blocked at once. */
  mostBlocked = 0;
  #busy = 0;
  readonly #queue: (() => void)[] = [];
  /** End the look-ups of silent names. */
  readonly #blocked = new Set<() => void>();

  static start(): NameServers {
    const names = new NameServers();
    dns.lookup = names.#lookup as typeof dns.lookup;
    return names;
  }

  /** Restores the function of Node and ends what waits. May be called twice. */
  stop(): void {
    dns.lookup = lookup;
    this.giveUp();
  }

  /** Ends the look-ups that are blocked, before their time. */
  giveUp(): void {
    this.#blocked.forEach((end) => end());
  }

  readonly #lookup = (name: string, ...rest: [LookupOptions, Parameters<LookupFunction>[2]]): void => {
    const [options, callback] = rest;
    if (isIP(name) !== 0) {
      Reflect.apply(lookup, dns, [name, ...rest]);
      return;
    }
    this.#onThread((leave) => {
      // That of localhost may be what an earlier suite has left.
      if (name !== 'localhost') {
        this.lookups.push(name);
      }
      if (name.startsWith('silent') || this.silent.has(name)) {
        const error = Object.assign(new Error('no answer'), { code: 'EAI_AGAIN' });
        this.#block(() => (leave(), callback(error, [])));
        return;
      }
      leave();
      const all = (this.system.get(name) ?? ['127.0.0.1']).map((address) => ({ address, family: 4 }));
      if (options.all === true) {
        callback(null, all);
      } else {
        callback(null, all[0]?.address ?? '', 4);
      }
    });
  };

  #onThread(run: (leave: () => void) => void): void {
    if (this.#busy >= THREADS) {
      this.#queue.push(() => this.#onThread(run));
      return;
    }
    this.#busy += 1;
    setImmediate(run, () => {
      this.#busy -= 1;
      this.#queue.shift()?.();
    });
  }

  #block(fail: () => void): void {
    const end = (): void => {
      clearTimeout(timer);
      this.#blocked.delete(end);
      fail();
    };
    const timer = setTimeout(end, SILENCE);
    this.#blocked.add(end);
    this.mostBlocked = Math.max(this.mostBlocked, this.#blocked.size);
  }
}
