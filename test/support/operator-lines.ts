import type { LoggerService } from '@nestjs/common';

/** Keeps what a host logs, without colours and stacks. */
export class OperatorLines implements LoggerService {
  readonly errors: string[] = [];
  readonly warnings: string[] = [];
  /** Of the package, since the host writes more. */
  readonly notes: string[] = [];

  /** Errors and warnings. */
  get all(): string[] {
    return [...this.errors, ...this.warnings];
  }

  log(line: unknown, context?: unknown): void {
    if (context === 'nestjs-exhibitor') {
      this.notes.push(String(line));
    }
  }

  warn(line: unknown): void {
    this.warnings.push(String(line));
  }

  error(line: unknown): void {
    this.errors.push(String(line));
  }

  fatal(line: unknown): void {
    this.errors.push(String(line));
  }

  clear(): void {
    this.errors.length = 0;
    this.warnings.length = 0;
    this.notes.length = 0;
  }
}
