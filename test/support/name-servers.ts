import { createSocket, type Socket } from 'node:dgram';
import dns, { type LookupAddress, type LookupOptions } from 'node:dns';
import { isIP, type AddressInfo, type LookupFunction } from 'node:net';

/** Threads of libuv for `getaddrinfo`: half of its four. */
const THREADS = 2;

type Answer = LookupAddress[] | 'unknown' | 'silent';

const { lookup } = dns;
const { Resolver } = dns.promises;

/**
 * The names below `.test` as a process finds them: `dns.lookup` takes one of libuv's two threads until the name servers
 * answer, and c-ares asks a real name server on loopback. A test cannot make `getaddrinfo` wait without being root.
 */
export class NameServers {
  /** What the operating system answers; default: 127.0.0.1. A name that begins with `silent` blocks its thread. */
  readonly system = new Map<string, Answer>();
  /** Names that the name server has no answer for, beside those that begin with `silent`. */
  readonly unanswered = new Set<string>();
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

  private constructor(private readonly server: Socket) {}

  static async start(): Promise<NameServers> {
    const server = createSocket('udp4');
    await new Promise<void>((resolve) => {
      server.bind(0, '127.0.0.1', resolve);
    });
    const names = new NameServers(server);
    server.on('message', (query, { port, address }) => {
      const reply = names.#reply(query);
      if (reply !== undefined) {
        server.send(reply, port, address);
      }
    });
    const { port } = server.address() as AddressInfo;
    dns.lookup = names.#lookup as typeof dns.lookup;
    dns.promises.Resolver = class extends Resolver {
      constructor(options?: dns.ResolverOptions) {
        super(options);
        this.setServers([`127.0.0.1:${port}`]);
      }
    };
    return names;
  }

  /** Restores the functions of Node and ends what waits. May be called twice. */
  stop(): void {
    if (dns.lookup === lookup) {
      return;
    }
    dns.lookup = lookup;
    dns.promises.Resolver = Resolver;
    this.silence = 0;
    for (const end of this.#ends) {
      end();
    }
    this.server.close();
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

  /** RFC 1035 §4.1: an address for a question of type A, none for others. */
  #reply(query: Buffer): Buffer | undefined {
    const labels: string[] = [];
    let at = 12;
    for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
      labels.push(query.toString('latin1', at + 1, at + 1 + length));
      at += 1 + length;
    }
    const name = labels.join('.');
    if (name.startsWith('silent') || this.unanswered.has(name)) {
      return undefined;
    }
    const isAddress = query.readUInt16BE(at + 1) === 1;
    const header = Buffer.from([0, 0, 0x81, 0x80, 0, 1, 0, Number(isAddress), 0, 0, 0, 0]);
    query.copy(header, 0, 0, 2);
    const answer = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 127, 0, 0, 1]);
    return Buffer.concat([header, query.subarray(12, at + 5), ...(isAddress ? [answer] : [])]);
  }
}
