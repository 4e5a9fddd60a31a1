/**
 * Refuses Bun at boot: the tests of hosts run on Node.js only.
 *
 * @throws Error where the process is not Node.js
 */
export function requireNode(versions: Readonly<Record<string, string | undefined>>): void {
  const { bun } = versions;
  if (bun !== undefined) {
    throw new Error(
      `nestjs-exhibitor does not support Bun (${bun}): run the host with Node.js ^20.19 || ^22.12 || >=24`,
    );
  }
}
