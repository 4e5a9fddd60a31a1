import { Inject } from '@nestjs/common';
import {
  ExhibitorModule,
  TenantRegistry,
  TokenService,
  type AccessToken,
  type GetTokenOptions,
} from '../../index.js';
import { copyJson } from '../copy-json.js';
import { pageOf } from '../sandbox/rest-api/exhibitor-records.js';
import { parseRoute } from '../sandbox/server/operations.js';
import { ExhibitorTestingBackend } from './testing-backend.js';

/** Services of the module in which tests differ from it. What they inherit is that of the module. */

const { calls: CallRunner, transport: Transport } = ExhibitorModule.forTests;

/** A call that names no tenant is one of the tenant of the world. */
export class TestingTenants extends TenantRegistry {
  declare readonly backend: ExhibitorTestingBackend;

  override get onlyKey(): string {
    return this.backend.tenant;
  }
}

/** Records the calls of `ExhibitorsService`, and fails where the test says so. */
export class TestingCalls extends CallRunner {
  declare readonly backend: ExhibitorTestingBackend;

  override check: InstanceType<typeof CallRunner>['check'] = (method, subject, schema, options, boundTo) => {
    this.backend.call({ method, tenant: options?.tenant ?? boundTo ?? this.backend.tenant, ...subject });
    return super.check(method, subject, schema, options, boundTo);
  };
}

/** Records the calls of `TokenService`, and fails where the test says so. */
export class TestingTokens extends TokenService {
  declare readonly backend: ExhibitorTestingBackend;

  override async getToken(options?: GetTokenOptions): Promise<AccessToken> {
    this.backend.call({ method: 'token', tenant: options?.tenant ?? this.backend.tenant });
    return super.getToken(options);
  }
}

/** Answers requests from memory. Nothing is sent. */
export class TestingTransport extends Transport {
  declare readonly backend: ExhibitorTestingBackend;

  override send: InstanceType<typeof Transport>['send'] = async ({ stateKey }, { operation, url }) => {
    // A 404 is about the event: the log need not warn of the base URL.
    stateKey.hasAnswered = true;
    // A copy, since a caller may change what it gets.
    const body = copyJson(this.#bodyOf(operation, new URL(url)));
    const status = body === undefined ? 404 : 200;
    return { status, headers: {}, body, sentAt: performance.now(), attempts: 1 };
  };

  #bodyOf(operation: string, { pathname, searchParams }: URL): unknown {
    const { records } = this.backend;
    const { eventId = '', contactEmail = '' } = parseRoute(pathname);
    const event = records.ofEvent(eventId);
    switch (operation) {
      case 'token':
        return { access_token: 'test-token', token_type: 'Bearer', scope: 'idp_api', expires_in: 3_600 };
      case 'lookup':
        return records.ofContact(eventId, contactEmail);
      case 'list':
        return (
          event && pageOf(event, Number(searchParams.get('Page')), Number(searchParams.get('ItemsPerPage')))
        );
      default:
        return undefined;
    }
  }
}

// Not in their constructors, whose parameters are those of the module.
for (const { prototype } of [TestingTenants, TestingCalls, TestingTokens, TestingTransport]) {
  Inject(ExhibitorTestingBackend)(prototype, 'backend');
}
