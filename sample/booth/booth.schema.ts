import { z } from 'zod';

const text = z
  .string()
  .nullish()
  .transform((value) => value ?? '');

/**
 * The fields of an exhibitor record this portal works with. The service does not publish what a record holds, so each
 * host says what it needs; everything else, contact addresses among it, is left out and reaches no page.
 */
export const boothSchema = z.object({
  id: z.string().min(1),
  name: z.string().min(1),
  hall: text,
  booth: text,
  country: text,
});

export type Booth = z.output<typeof boothSchema>;
