import { Inject, Injectable } from '@nestjs/common';
import {
  type AccessToken,
  type GetTokenOptions,
  type InvalidateOptions,
  type TokenService,
} from '../../index.js';
import { ExhibitorTestingBackend } from './testing-backend.js';

/** In place of `TokenService`: a token that nothing accepts. Records its calls, and fails where the test says so. */
@Injectable()
export class TestingTokens implements Pick<TokenService, 'getToken' | 'invalidate' | 'prove'> {
  constructor(@Inject(ExhibitorTestingBackend) private readonly backend: ExhibitorTestingBackend) {}

  async getToken(options?: GetTokenOptions): Promise<AccessToken> {
    const tenant = options?.tenant ?? this.backend.tenant;
    this.backend.call({ method: 'token', tenant }, options?.signal);
    const expiresAt = new Date(Date.now() + 3_600_000);
    return { accessToken: 'test-token', tokenType: 'Bearer', scope: 'idp_api', expiresAt };
  }

  async prove(tenant: string | undefined): Promise<{ age: number; error: undefined }> {
    await this.getToken({ tenant });
    return { age: 0, error: undefined };
  }

  async invalidate(_options?: InvalidateOptions): Promise<void> {}
}
