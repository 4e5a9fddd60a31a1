import { Rests } from '../../lib/call/partner.js';
import type { Failure } from '../../lib/errors/failure.js';
import { Pauses, type Turn } from '../../lib/http/limits/pauses.js';
import type { Operation } from '../../lib/http/transport-request.interface.js';
import { StoppedClock } from './clock.js';

/** A request that a partner may ask to wait for. */
export interface PausedRequest {
  tenant: number;
  origin: string;
  operation: Operation;
  about?: string | undefined;
}

export const ORIGIN = 'https://api.example.com';
export const limited: Failure = {
  code: 'rate_limited',
  message: 'the service limits our requests',
  status: 429,
};

export const requestOf = (
  operation: Operation,
  about?: string,
  tenant = 1,
  origin = ORIGIN,
): PausedRequest => ({ tenant, origin, operation, about });
export const list = requestOf('list');
export const lookup = (contact: string, tenant?: number) => requestOf('lookup', contact, tenant);
export const token = (secret: string, tenant?: number) => requestOf('token', secret, tenant);

/** Rests of a stopped clock, and the pauses of requests as the transport keeps them. */
export function startPauses() {
  const clock = new StoppedClock();
  clock.random = () => 0.5;
  const rests = new Rests(clock);
  const all = new Map<string, Pauses>();
  const pausesOf = ({ tenant, origin, operation }: PausedRequest): Pauses => {
    const key = JSON.stringify([tenant, origin, operation]);
    const pauses = all.get(key) ?? new Pauses(rests, clock, { tenant, origin, operation }, 16);
    all.set(key, pauses);
    return pauses;
  };
  /** A partner answered a request with `Retry-After`. */
  const limit = (request: PausedRequest, ms: number): number =>
    pausesOf(request).begin(request.about, ms, limited);
  /** What a call with so much time may do. */
  const turn = (request: PausedRequest, remaining = 10_000): Turn =>
    pausesOf(request).turn(request.about, remaining);
  return { clock, rests, pausesOf, limit, turn, goes: (request: PausedRequest) => turn(request).go };
}
