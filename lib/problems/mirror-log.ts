import type { ConfigurationProblem } from '../errors/configuration.error.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { untrustedText } from '../model/untrusted-text.js';
import { Clock } from '../time/clock.js';
import { ThrottledLog } from './throttled-log.js';

interface Scope {
  tenant: string;
  eventId: string;
}

/** What an operator reads about the mirror of `nestjs-exhibitor/bullmq`: one line a minute for each cause and event. */
export class MirrorLog {
  readonly #log = new ThrottledLog(new Clock(), 60_000);

  /** A job failed: a copy, or without event the listing of the events. */
  failed({ tenant, eventId }: Partial<Scope> = {}, error: unknown): void {
    const code = isExhibitorError(error) ? `${error.code}: ` : '';
    const what =
      tenant === undefined || eventId === undefined
        ? 'mirror: the events cannot be listed'
        : `${nameOf({ tenant, eventId })}: the copy failed`;
    this.#log.error(`${what} (${code}${reasonOf(error)})`, what);
  }

  /** Nothing is logged where no removal is held back. */
  held(scope: Scope, removals: number): void {
    if (removals === 0) {
      return;
    }
    const line = `${nameOf(scope)}: ${removals} removals are held back; if they are right, call approve with ${removals}`;
    this.#log.warn(line, `held ${nameOf(scope)}`);
  }

  wrongEvent(problems: readonly ConfigurationProblem[]): void {
    const lines = problems.map(({ path, expected }) => `${path}: ${expected}`).join(', ');
    this.#log.error(`mirror: an event is left out (${lines})`, lines);
  }

  /** What BullMQ reports: most often, Redis is down. */
  queueFails(error: unknown): void {
    this.#log.warn(`mirror: the queue fails (${reasonOf(error)}); it continues when Redis answers`, 'queue');
  }

  noQueue(): void {
    const line =
      'mirror: there is no queue, so events are copied only by ExhibitorMirror.copy(). For copies by BullMQ, import ' +
      'BullModule.forRoot() or set the option connection; else set worker: false';
    this.#log.warn(line, 'no queue');
  }
}

function nameOf({ tenant, eventId }: Scope): string {
  return `mirror of the event ${untrustedText(eventId)} of the tenant ${untrustedText(tenant)}`;
}

function reasonOf(error: unknown): string {
  return untrustedText(error instanceof Error ? error.message : String(error), 300);
}
