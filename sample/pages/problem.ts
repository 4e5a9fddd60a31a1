import { HttpException } from '@nestjs/common';

/** An error of this application or of NestJS as shown to a person: no host names, tokens or stack traces. */
export interface Problem {
  status: number;
  title: string;
  text: string;
}

type Words = Omit<Problem, 'status'>;

const BY_STATUS: Readonly<Record<number, Words>> = {
  400: {
    title: 'That request is not quite right',
    text: 'The address or the form contains an invalid value.',
  },
  403: { title: 'You may not see this page', text: 'It is for administrators of the portal.' },
  404: {
    title: 'There is nothing here',
    text: 'The address may be wrong, or the event is no longer listed.',
  },
  413: { title: 'The request is too large', text: 'The form is larger than the server accepts.' },
};

const INTERNAL: Words = {
  title: 'An internal error occurred',
  text: 'The error was logged. Please try again later.',
};

export function describeProblem(thrown: unknown): Problem {
  const status = thrown instanceof HttpException ? thrown.getStatus() : 500;
  return { status, ...(BY_STATUS[status] ?? INTERNAL) };
}
