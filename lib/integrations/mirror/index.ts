/** `nestjs-exhibitor/mirror`: one event kept in the host's own database. */
export * from './copy-event.js';
