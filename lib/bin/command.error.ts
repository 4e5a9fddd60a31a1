/** A command cannot run. The message is printed as it is, without a stack; the exit code is 2. */
export class CommandError extends Error {}
