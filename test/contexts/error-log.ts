import type { LoggerService } from '@nestjs/common';

/** Keeps the error messages of Nest. */
export class ErrorLog implements LoggerService {
  readonly messages: string[] = [];

  log(): void {}

  warn(): void {}

  error(message: unknown): void {
    this.messages.push(String(message));
  }
}
