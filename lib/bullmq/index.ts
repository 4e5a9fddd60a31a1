/** `nestjs-exhibitor/bullmq`: events kept in the host's own database, by many processes. */
export { ExhibitorMirrorModule, type ExhibitorMirrorAsyncOptions } from './exhibitor-mirror.module.js';
export { ExhibitorMirror } from './exhibitor-mirror.service.js';
export type { ExhibitorMirrorOptions, MirroredEvent, MirrorStatus } from './mirror-options.interface.js';
export type { ExhibitorMirrorTarget, MirrorBatch, MirrorScope, Row } from './mirror-target.interface.js';
