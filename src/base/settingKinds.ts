/** Kinds of settings that several stages have, as schemas. */
import { z } from "zod";

/** A whole number of at least `least`. */
export const whole = (least: number) => z.number().int().min(least);

/** A whole number of at least 1, or -1 for what is derived. */
export const wholeOrDerived = () =>
  z
    .number()
    .int()
    .refine((value) => value === -1 || value >= 1)
    .meta({ rule: "an integer of 1 or more, or -1" });

export const seed = () => z.number().int().min(0).max(4294967295);
