/** Settings of the optimizer and of its learning rate by their names on the command line. */
import { z } from "zod";
import { whole, wholeOrDerived } from "../base/settingKinds.ts";
import { afterSchedule, scheduleKinds } from "./schedule.ts";

export const optimizerSettings = z.object({
  learning_rate: z.number().gt(0).max(10).default(1e-3).describe("Peak learning rate of AdamW"),
  lr_schedule_type: z
    .enum(scheduleKinds)
    .default("cosine")
    .describe("What follows warm-up: nothing, a line, half a cosine, or constant and then a line (wsd)"),
  warmup_steps_fraction: z
    .number()
    .min(0)
    .max(1)
    .default(0.1)
    .describe("Share of learning_rate_schedule_steps in which the learning rate rises from 0"),
  warmup_steps: z
    .number()
    .int()
    .min(-1)
    .default(-1)
    .describe("Steps in which the learning rate rises from 0; -1 = warmup_steps_fraction of the schedule")
    .meta({ rule: "an integer of 0 or more, or -1" }),
  learning_rate_final_fraction: z
    .number()
    .min(0)
    .max(1)
    .default(0.1)
    .describe("Learning rate at the schedule's end, as a fraction of the peak"),
  learning_rate_schedule_steps: wholeOrDerived()
    .default(-1)
    .describe("Steps the schedule spans, warm-up included; -1 = steps"),
  lr_after_schedule: z
    .enum(afterSchedule)
    .default("zero")
    .describe("Learning rate after the schedule's end: zero (MaxText's), or the final one for ever (Megatron's)"),
  wsd_decay_steps_fraction: z
    .number()
    .min(0)
    .max(1)
    .default(0.1)
    .describe("Share of learning_rate_schedule_steps that is wsd's final decay"),
  adam_b1: z.number().min(0).lt(1).default(0.9).describe("Decay of AdamW's mean gradient"),
  adam_b2: z.number().min(0).lt(1).default(0.95).describe("Decay of AdamW's mean squared gradient"),
  adam_eps: z.number().gt(0).max(1).default(1e-8).describe("Added to AdamW's denominator"),
  adam_weight_decay: z.number().min(0).max(10).default(0.1).describe("Decoupled weight decay"),
  gradient_clipping_threshold: z
    .number()
    .min(0)
    .default(1)
    .describe("Largest global gradient norm; larger gradients are scaled down to it; 0 = no clipping"),
  gradient_accumulation_steps: whole(1)
    .default(1)
    .describe("Micro-batches of per_device_batch_size sequences whose gradients are summed before an update"),
  z_loss_multiplier: z
    .number()
    .min(0)
    .max(1)
    .default(0)
    .describe("Weight of log²Σexp(logits) in training's loss; validation's loss is without it"),
  initial_loss_scale: z
    .number()
    .gt(0)
    .max(2 ** 40)
    .default(65536)
    .describe("dtype=float16: what the loss is multiplied by at first, so that small gradients don't vanish"),
  min_loss_scale: z
    .number()
    .gt(0)
    .max(2 ** 40)
    .default(1)
    .describe("dtype=float16: the loss scale does not fall below; an overflow there counts for max_skipped_steps"),
  loss_scale_growth_factor: z
    .number()
    .gt(1)
    .max(2 ** 16)
    .default(2)
    .describe("dtype=float16: the loss scale is multiplied by this after loss_scale_growth_interval good steps"),
  loss_scale_growth_interval: whole(1)
    .default(2000)
    .describe("dtype=float16: good steps in a row after which the loss scale grows"),
  loss_scale_backoff_factor: z
    .number()
    .gt(0)
    .lt(1)
    .default(0.5)
    .describe("dtype=float16: the loss scale is multiplied by this where gradients overflow, and the step is skipped"),
});
