import { describeIsolation } from '../fleet/isolation.js';

// A part of the proof; the whole of it is `npm run test:fleet`.
describeIsolation({ tenants: 500, operations: 2_000, longest: 10_000 });
