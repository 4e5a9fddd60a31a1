import { describeIsolation } from '../fleet/isolation.js';

// Ten seconds of the proof; the whole of it is `npm run test:fleet`.
describeIsolation({ tenants: 500, operations: 10_000, longest: 10_000 });
