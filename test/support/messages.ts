import { subscribe, unsubscribe } from 'node:diagnostics_channel';

/** Messages on a diagnostics channel while `work` runs. */
export async function messagesOn<T = unknown>(channel: string, work: () => Promise<unknown>): Promise<T[]> {
  const messages: T[] = [];
  const collect = (message: unknown): void => void messages.push(message as T);
  subscribe(channel, collect);
  try {
    await work();
  } finally {
    unsubscribe(channel, collect);
  }
  return messages;
}

/** Rejections that nothing handles while `work` runs. */
export async function unhandledIn(work: () => Promise<unknown>): Promise<unknown[]> {
  const unhandled: unknown[] = [];
  const collect = (reason: unknown): void => void unhandled.push(reason);
  process.on('unhandledRejection', collect);
  try {
    await work();
  } finally {
    process.off('unhandledRejection', collect);
  }
  return unhandled;
}
