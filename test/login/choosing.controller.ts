import { Controller, Get, Injectable, UseGuards } from '@nestjs/common';
import {
  ExhibitorCallbackGuard,
  ExhibitorLoginGuard,
  type HttpContext,
  type LoginParameters,
} from '../../lib/index.js';
import type { Reply, Visitor } from '../support/visitor.js';

/** Takes the parameters from the query, as JSON. */
@Injectable()
class ChoosingLoginGuard extends ExhibitorLoginGuard {
  protected override async getLoginParameters({ request }: HttpContext): Promise<LoginParameters> {
    return JSON.parse(String(request.query['parameters'])) as LoginParameters;
  }
}

/** Fails where it is asked for the path. */
@Injectable()
class FailingCallbackGuard extends ExhibitorCallbackGuard {
  protected override getCallbackPath(): never {
    throw new Error('asked for the path');
  }
}

@Controller()
export class ChoosingController {
  @Get('choose')
  @UseGuards(ChoosingLoginGuard)
  login(): void {}

  @Get('failing-callback')
  @UseGuards(FailingCallbackGuard)
  callback(): void {}
}

/** The reply of the login route to these parameters. */
export const beginWith = (visitor: Visitor, { url }: { url: string }, parameters: unknown): Promise<Reply> =>
  visitor.visit(`${url}/choose?${new URLSearchParams({ parameters: JSON.stringify(parameters) })}`);
