/** A command of the parent, see `fleet.ts`. */
interface Order {
  id: number;
  command: string;
  argument: never;
}

/** Carries out the commands of the parent process. */
export function obey(commands: Record<string, (argument: never) => Promise<unknown>>): void {
  process.on('message', async ({ id, command, argument }: Order) => {
    try {
      process.send?.({ id, result: await commands[command]?.(argument) });
    } catch (error) {
      process.send?.({ id, failure: String(error) });
    }
  });
}
