/** `nestjs-exhibitor/mirror`: one event kept in the host's own database. */
export { copyEvent, type MirrorOptions, type MirrorResult } from './copy-event.js';
export type { MirrorBatch, MirrorScope, MirrorTarget, Row } from './mirror-target.interface.js';
