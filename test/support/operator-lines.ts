import type { LoggerService } from '@nestjs/common';

/** Keeps what a host logs, without colours and stacks. */
export class OperatorLines implements LoggerService {
  readonly errors: string[] = [];
  readonly warnings: string[] = [];

  /** Errors and warnings. */
  get all(): string[] {
    return [...this.errors, ...this.warnings];
  }

  log(): void {}

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
  }
}
