import { describe, expect, it } from '@jest/globals';
import { Circuit } from '../../lib/transport/limits/circuit.js';
import { isUnanswered, type Failed } from '../../lib/transport/outcome.js';

/** Requests that are sent now and get no reply. */
function unanswered(circuit: Circuit, count: number, now = 0): void {
  for (let request = 0; request < count; request += 1) {
    circuit.unanswered(now, now);
  }
}

describe('a circuit', () => {
  it('opens for 5 s after 40 requests in a row without a reply', () => {
    const circuit = new Circuit();
    unanswered(circuit, 39);
    expect(circuit.openFor(0)).toBe(0);
    unanswered(circuit, 1);
    expect(circuit.openFor(1_000)).toBe(4_000);
    expect(circuit.openFor(5_000)).toBe(0);
  });

  it('stays closed while replies come between', () => {
    const circuit = new Circuit();
    for (let turn = 0; turn < 10; turn += 1) {
      unanswered(circuit, 39, turn);
      circuit.replied(turn);
    }
    expect(circuit.openFor(10)).toBe(0);
  });

  it('counts from 0 after the pause, and only what was sent since', () => {
    const circuit = new Circuit();
    unanswered(circuit, 40);
    for (let late = 0; late < 100; late += 1) {
      circuit.unanswered(0, 6_000);
    }
    unanswered(circuit, 39, 6_000);
    expect(circuit.openFor(6_000)).toBe(0);
    unanswered(circuit, 1, 6_000);
    expect(circuit.openFor(6_000)).toBe(5_000);
  });

  it('does not count requests that were sent before the last reply', () => {
    const circuit = new Circuit();
    circuit.replied(10);
    for (let late = 0; late < 100; late += 1) {
      circuit.unanswered(9, 20);
    }
    expect(circuit.openFor(20)).toBe(0);
  });

  it('is closed by any reply', () => {
    const circuit = new Circuit();
    unanswered(circuit, 40);
    circuit.replied(100);
    expect(circuit.openFor(100)).toBe(0);
  });
});

describe('a request without a reply', () => {
  const failed = (given: Partial<Failed>): Failed => ({
    kind: 'failed',
    why: 'network',
    message: '',
    ...given,
  });

  it('counts where the connection fails or the time of an attempt passes', () => {
    expect(isUnanswered(failed({}), 'list', false)).toBe(true);
    expect(isUnanswered(failed({ why: 'timeout' }), 'list', false)).toBe(true);
    expect(isUnanswered(failed({ why: 'over' }), 'list', true)).toBe(true);
  });

  it.each<[string, Partial<Failed>, boolean]>([
    ['there was a status line', { status: 200 }, false],
    ['the call was aborted, or had less time', { why: 'over' }, false],
    ['an interceptor of the host failed', { why: 'interceptor' }, false],
    ['an interceptor of the host took the time', { why: 'over', phase: 'request interceptor' }, true],
  ])('does not count where %s', (_why, given, hadTime) => {
    expect(isUnanswered(failed(given), 'list', hadTime)).toBe(false);
  });

  it('with the code of a login counts only where no connection was made', () => {
    expect(isUnanswered(failed({ phase: 'connecting' }), 'code', false)).toBe(true);
    expect(isUnanswered(failed({ wasReset: true }), 'code', false)).toBe(false);
    expect(isUnanswered(failed({ why: 'over' }), 'code', true)).toBe(false);
  });
});
