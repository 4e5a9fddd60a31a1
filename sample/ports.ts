/** A mistake of whoever starts the sample: shown as one line, without a stack. */
export class StartError extends Error {}

/** Reads a port from the environment. */
export function portOf(name: string, value: string | undefined, fallback: number): number {
  if (value === undefined || value.trim() === '') return fallback;
  const port = /^\d{1,5}$/.test(value.trim()) ? Number(value) : 0;
  if (port >= 1 && port <= 65_535) return port;
  throw new StartError(`${name} must be a port from 1 to 65535, not ${JSON.stringify(value)}.`);
}

/** Says which port is taken instead of showing an error of the operating system. */
export function explainPort(error: unknown, name: string, port: number): unknown {
  const code = codeOf(error) ?? (error instanceof Error ? codeOf(error.cause) : undefined);
  if (code === 'EADDRINUSE') {
    return new StartError(
      `Port ${port} is already in use. Choose another one: ${name}=${suggestion(port)} npm start`,
    );
  }
  if (code === 'EACCES') {
    return new StartError(`Port ${port} may not be opened by this user. Choose one above 1023 with ${name}.`);
  }
  return error;
}

function suggestion(port: number): number {
  return port < 65_535 ? port + 1 : port - 1;
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}
