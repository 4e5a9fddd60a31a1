import { MessageChannel, receiveMessageOnPort, Worker, type MessagePort } from 'node:worker_threads';
import type { ExhibitorSandbox as LocalSandbox, SandboxOptions } from '../exhibitor-sandbox.js';
import type { FaultMatch } from '../fault-queue.js';
import type { Fault } from '../faults.js';
import type { SandboxRequest } from '../request-log.js';
import type { SandboxExhibitor } from '../sandbox-exhibitor.interface.js';
import type { SeedEvent, SeedPerson, SeedTenant } from '../seed.js';
import type { PublicJwk } from '../signing-key.js';
import type { SandboxTenantOptions, TenantOptionsOverrides } from '../sandbox-tenant-options.js';
import { valueOf, type SandboxCall, type SandboxResult, type WorkerSetup } from './sandbox-messages.js';

export type { SandboxOptions } from '../exhibitor-sandbox.js';

/** Time limit of a synchronous call in ms. The thread answers within one. */
const LONGEST_WAIT = 10_000;

/** From `dist/testing/sandbox/remote-sandbox.cjs`, the CommonJS build of this file. */
const WORKER = new URL('./remote/sandbox-worker.js', import.meta.url);

/** Values that can still be read after the sandbox was stopped. */
const KEPT = [
  'tenants',
  'people',
  'events',
  'publicKeyPem',
  'publicJwks',
  'requests',
  'openRequests',
  'openConnections',
  'latency',
  'tokenLifetime',
] as const;

/**
 * The `ExhibitorSandbox` of the CommonJS build, for Jest. The sandbox runs in a thread of its own, where Node loads
 * `oidc-provider` as it is: the transforms and the module registry of Jest do not reach it. Its members stay synchronous: a
 * call waits until the thread has answered.
 */
export class ExhibitorSandbox implements Pick<LocalSandbox, keyof LocalSandbox> {
  readonly url: string;
  readonly #thread: SandboxThread;
  /** Values at the end, once the sandbox was stopped. */
  #kept: Map<string, unknown> | undefined;
  #stopping: Promise<void> | undefined;

  private constructor(thread: SandboxThread, url: string) {
    this.#thread = thread;
    this.url = url;
  }

  static async start(options: SandboxOptions = {}): Promise<ExhibitorSandbox> {
    const thread = new SandboxThread(options);
    try {
      return new ExhibitorSandbox(thread, String(await thread.started));
    } catch (error) {
      await thread.end();
      throw error;
    }
  }

  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  get tenants(): readonly SeedTenant[] {
    return this.#get('tenants');
  }

  get people(): readonly SeedPerson[] {
    return this.#get('people');
  }

  get events(): readonly SeedEvent[] {
    return this.#get('events');
  }

  get publicKeyPem(): string {
    return this.#get('publicKeyPem');
  }

  get publicJwks(): { readonly keys: readonly PublicJwk[] } {
    return this.#get('publicJwks');
  }

  /** Records of this moment; they are not updated later. */
  get requests(): readonly SandboxRequest[] {
    return this.#get('requests');
  }

  get openRequests(): number {
    return this.#get('openRequests');
  }

  get openConnections(): number {
    return this.#get('openConnections');
  }

  get latency(): number {
    return this.#get('latency');
  }

  set latency(ms: number) {
    this.#ask('set', 'latency', [ms]);
  }

  get tokenLifetime(): number {
    return this.#get('tokenLifetime');
  }

  set tokenLifetime(seconds: number) {
    this.#ask('set', 'tokenLifetime', [seconds]);
  }

  tenantOptions(key: string, overrides?: TenantOptionsOverrides): SandboxTenantOptions {
    return this.#ask('call', 'tenantOptions', [key, overrides]);
  }

  signInAs(person: string | undefined): void {
    this.#ask('call', 'signInAs', [person]);
  }

  followLogin(address: string): Promise<string> {
    return this.#thread.askLater('followLogin', [address]);
  }

  setBackChannelLogoutUri(...args: Parameters<LocalSandbox['setBackChannelLogoutUri']>): void {
    this.#ask('call', 'setBackChannelLogoutUri', args);
  }

  clearRequests(): void {
    this.#ask('call', 'clearRequests', []);
  }

  failNext(match: FaultMatch, fault: Fault, times?: number): void {
    this.#ask('call', 'failNext', [match, fault, times]);
  }

  clearFaults(): void {
    this.#ask('call', 'clearFaults', []);
  }

  revokeTokens(tenant?: string): void {
    this.#ask('call', 'revokeTokens', [tenant]);
  }

  exhibitors(eventId: string, tenant: string): readonly SandboxExhibitor[] {
    return this.#ask('call', 'exhibitors', [eventId, tenant]);
  }

  setExhibitors(eventId: string, records: readonly SandboxExhibitor[], tenant?: string): void {
    this.#ask('call', 'setExhibitors', [eventId, records, tenant]);
  }

  async #stop(): Promise<void> {
    await this.#thread.askLater('stop', []);
    this.#kept = new Map(KEPT.map((name) => [name, this.#ask('get', name, [])]));
    await this.#thread.end();
  }

  #get<K extends (typeof KEPT)[number]>(name: K): LocalSandbox[K] {
    return this.#kept === undefined ? this.#ask('get', name, []) : parsed(this.#kept.get(name));
  }

  #ask<R>(kind: SandboxCall['kind'], name: string, args: unknown[]): R {
    if (this.#kept !== undefined) {
      throw new Error(`ExhibitorSandbox: ${name} needs a sandbox that was not stopped`);
    }
    return parsed(this.#thread.ask({ kind, name, args }));
  }
}

/** A value of the thread, which runs the class of this type. */
function parsed<R>(value: unknown): R {
  return value as R;
}

/** The thread of a sandbox. */
class SandboxThread {
  /** The URL of the sandbox. */
  readonly started: Promise<unknown>;
  readonly #worker: Worker;
  readonly #port: MessagePort;
  readonly #answered = new Int32Array(new SharedArrayBuffer(4));
  readonly #waiting = new Map<number, { resolve(value: unknown): void; reject(error: unknown): void }>();
  #last = 0;

  constructor(options: SandboxOptions) {
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    const workerData: WorkerSetup = { options, port: port2, answered: this.#answered };
    this.#worker = new Worker(WORKER, { workerData, transferList: [port2], execArgv: [] });
    this.started = this.#wait(0);
    this.#worker.on('message', ({ id, result }: { id: number; result: SandboxResult }) =>
      this.#settle(id, result),
    );
    this.#worker.on('error', (error: unknown) => this.#failAll(error));
  }

  /** Calls the sandbox and blocks until it has answered. */
  ask(call: SandboxCall): unknown {
    Atomics.store(this.#answered, 0, 0);
    this.#port.postMessage(call);
    if (Atomics.wait(this.#answered, 0, 0, LONGEST_WAIT) === 'timed-out') {
      throw new Error(`ExhibitorSandbox: its thread does not answer ${call.name}`);
    }
    const { message } = receiveMessageOnPort(this.#port) ?? {};
    return valueOf(parsed<SandboxResult>(message));
  }

  /** Calls an asynchronous method. */
  async askLater<R>(name: string, args: unknown[]): Promise<R> {
    this.#last += 1;
    const id = this.#last;
    const answer = this.#wait(id);
    this.#worker.postMessage({ id, kind: 'call', name, args });
    return parsed(await answer);
  }

  async end(): Promise<void> {
    this.#port.close();
    await this.#worker.terminate();
  }

  #wait(id: number): Promise<unknown> {
    return new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
  }

  #settle(id: number, result: SandboxResult): void {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    try {
      waiting?.resolve(valueOf(result));
    } catch (error) {
      waiting?.reject(error);
    }
  }

  #failAll(error: unknown): void {
    for (const id of this.#waiting.keys()) {
      this.#settle(id, { error: { name: 'Error', message: String(error) } });
    }
  }
}
