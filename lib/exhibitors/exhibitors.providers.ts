import type { Provider } from '@nestjs/common';
import { ExhibitorLookups } from './lookups/exhibitor-lookups.service.js';
import { ExhibitorPages } from './pages/exhibitor-pages.service.js';
import { RestClient } from './rest-client.service.js';
import { CallRunner } from './call-runner.service.js';

/** What {@link ExhibitorsService} is made of. None of it is exported to a host. */
export const EXHIBITORS_PROVIDERS: Provider[] = [RestClient, CallRunner, ExhibitorPages, ExhibitorLookups];
