import { applyDecorators, Controller, Get, Req, type Type } from '@nestjs/common';
import type { Exhibitor, ExhibitorRequest } from '../../lib/index.js';

/** A controller with a GET route for each path. A route answers what the guards have found. */
export function routesOf(routes: Record<string, MethodDecorator[]>, ...ofAll: ClassDecorator[]): Type {
  // oxlint-disable-next-line typescript/no-extraneous-class -- the loop adds its methods
  class Routes {}
  for (const [path, decorators] of Object.entries(routes)) {
    const value = ({ exhibitorContext }: ExhibitorRequest): object => {
      const { identity, exhibitors, exhibitor, exhibitorId: _id, ...found } = exhibitorContext ?? {};
      const { id } = (exhibitor ?? {}) as Exhibitor;
      return { subject: identity?.subject, count: exhibitors?.length, id, ...found };
    };
    Object.defineProperty(Routes.prototype, path, { value });
    Object.defineProperty(value, 'name', { value: path });
    Req()(Routes.prototype, path, 0);
    applyDecorators(Get(path), ...decorators)(Routes.prototype, path, { value });
  }
  applyDecorators(Controller(), ...ofAll)(Routes);
  return Routes;
}
