import { z } from 'zod';

const text = z
  .string()
  .nullish()
  .transform((value) => value ?? '');

/**
 * The fields of an exhibitor record that the portal uses. The service does not specify the fields of a record, so each
 * host defines them. All other fields are removed, e-mail addresses included, and cannot appear on a page.
 */
export const boothSchema = z.object({
  id: z.string().min(1),
  name: z.string().min(1),
  hall: text,
  booth: text,
  country: text,
});

export type Booth = z.output<typeof boothSchema>;
