/** An exhibitor record of the sandbox. The service does not specify the fields of a record; a test may add any. */
export interface SandboxExhibitor {
  readonly id: string;
  /** Addresses by which a lookup finds this record. They are compared byte for byte. */
  readonly contactEmails: readonly string[];
  readonly [field: string]: unknown;
}
