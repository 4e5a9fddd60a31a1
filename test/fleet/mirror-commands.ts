import type { MirrorScope } from '../../lib/mirror/index.js';
import type { MirrorAppOptions } from '../../sample/mirror/mirror-app.module.js';

/** Commands of `mirror-process.ts`. */
export interface MirrorCommands {
  start(options: MirrorAppOptions): Promise<void>;
  /** Copies the event at once, beside the workers, as the button of the page does. Answers the code of its error, or none. */
  copy(scope: MirrorScope & { maxRemovals?: number }): Promise<string | undefined>;
  close(): Promise<void>;
}
