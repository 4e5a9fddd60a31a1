import { HttpException, HttpStatus, Injectable, type ExecutionContext } from '@nestjs/common';
import { ExhibitorIdentityGuard } from 'nestjs-exhibitor';

/** Sets `request.user` if a person is logged in. Allows all other requests too: for public pages. */
@Injectable()
export class OptionalIdentityGuard extends ExhibitorIdentityGuard {
  override async canActivate(context: ExecutionContext): Promise<boolean> {
    try {
      return await super.canActivate(context);
    } catch (error) {
      if (error instanceof HttpException && error.getStatus() === HttpStatus.UNAUTHORIZED) {
        return true;
      }
      throw error;
    }
  }
}
