import type { ExecutionContext } from '@nestjs/common';
import { stateIn, type RequestState } from '../guards/request-state.js';

/** What a guard found out; a decorator without its guard is a mistake in the host and says so. */
export function requiredState(context: ExecutionContext, decorator: string, guard: string): RequestState {
  const state = stateIn(context);
  if (state !== undefined) {
    return state;
  }
  throw new Error(`@${decorator}() needs ${guard} on the route`);
}
