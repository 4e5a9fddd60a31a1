import type { Provider } from '@nestjs/common';
import { ExhibitorLookups } from './exhibitor-lookups.service.js';
import { ExhibitorPages } from './exhibitor-pages.service.js';
import { RestClient } from './rest-client.service.js';
import { ServiceCalls } from './service-calls.service.js';

/** What {@link ExhibitorsService} is made of. None of it is exported to a host. */
export const EXHIBITOR_ROOM: Provider[] = [RestClient, ServiceCalls, ExhibitorPages, ExhibitorLookups];
