import { HttpException, HttpStatus, Injectable, type ExecutionContext } from '@nestjs/common';
import { ExhibitorIdentityGuard } from 'nestjs-exhibitor';

/** For pages that greet who is logged in and welcome everybody else as well. */
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
