/** Tells the processes of a host which tenants were forgotten in one of them. */
export interface SharedForgets {
  /** Changes whenever a tenant is forgotten in any process; `undefined` where it was not read within the last second. */
  era(): string | undefined;
  /** As {@link era}; reads it where it is due. */
  readEra(): Promise<string>;
  /** Changes when this tenant is forgotten; empty where that was not done or is long past, `undefined` where it cannot be read. */
  markOf(key: string): Promise<string | undefined>;
  /** Tells the other processes. `note` is called with the new mark before {@link era} changes. */
  announce(key: string, note: (mark: string) => void): Promise<void>;
}
