import type { Provider } from '@nestjs/common';
import { CallRunner } from './call-runner.service.js';
import { ExhibitorLookups } from './lookups/exhibitor-lookups.service.js';
import { ExhibitorPages } from './pages/exhibitor-pages.service.js';
import { RestClient } from './rest-client.service.js';

/** Internal providers of {@link ExhibitorsService}. */
export const EXHIBITORS_PROVIDERS: Provider[] = [RestClient, CallRunner, ExhibitorPages, ExhibitorLookups];
