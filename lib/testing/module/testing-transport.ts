import type { ExhibitorModule } from '../../index.js';
import { copyJson } from '../json.js';
import { pageOf } from '../sandbox/rest-api/exhibitor-records.js';
import { parseRoute } from '../sandbox/server/operations.js';
import type { ExhibitorTestingBackend } from './testing-backend.js';

type Transport = InstanceType<typeof ExhibitorModule.forTests.transport>;

/** Answers requests from memory. Nothing is sent. */
export class TestingTransport implements Pick<Transport, 'send' | 'dispatcherOf'> {
  constructor(private readonly backend: ExhibitorTestingBackend) {}

  readonly send: Transport['send'] = async ({ stateKey }, { operation, url }) => {
    // A 404 is about the event: the log need not warn of the base URL.
    stateKey.hasAnswered = true;
    // A copy, since a caller may change what it gets.
    const body = copyJson(this.#bodyOf(operation, new URL(url)));
    const status = body === undefined ? 404 : 200;
    return { status, body, sentAt: performance.now() };
  };

  dispatcherOf(): undefined {
    return undefined;
  }

  #bodyOf(operation: string, { pathname, searchParams }: URL): unknown {
    const { eventId = '', contactEmail = '' } = parseRoute(pathname);
    const event = this.backend.records.ofEvent(eventId);
    switch (operation) {
      case 'token':
        return { access_token: 'test-token', token_type: 'Bearer', scope: 'idp_api', expires_in: 3_600 };
      case 'lookup':
        return this.backend.records.ofContact(eventId, contactEmail);
      case 'list':
        return (
          event && pageOf(event, Number(searchParams.get('Page')), Number(searchParams.get('ItemsPerPage')))
        );
      default:
        return undefined;
    }
  }
}
