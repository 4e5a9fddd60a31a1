import { describeIsolation } from './isolation.js';

describeIsolation({ tenants: 500, operations: 10_000 });
