/** `nestjs-exhibitor/terminus`: a health indicator for `@nestjs/terminus` 11 and 12. */
export { ExhibitorHealthIndicator, type ExhibitorHealthOptions } from './exhibitor.health.js';
