/** An exhibitor record as the sandbox serves it. The service publishes no fields, so a test may add its own. */
export interface SandboxExhibitor {
  readonly id: string;
  /** The addresses that find this record by contact e-mail, compared byte for byte. */
  readonly contactEmails: readonly string[];
  readonly [field: string]: unknown;
}
