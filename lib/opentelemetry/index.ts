export { exhibitorMetrics } from './exhibitor-metrics.js';
export { hideAddresses } from './hide-addresses.js';
