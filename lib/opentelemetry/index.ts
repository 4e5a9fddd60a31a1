export { exhibitorMetrics, hideAddresses } from './opentelemetry.js';
