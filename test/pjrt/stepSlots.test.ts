import { describe, expect, it } from "vitest";
import { StepSlots } from "../../src/pjrt/stepSlots.ts";

describe("slots for steps in flight", () => {
  it("are given at once while there are any, then in order of asking", async () => {
    const slots = new StepSlots(2);
    expect(slots.acquire()).toBeUndefined();
    expect(slots.acquire()).toBeUndefined();
    const order: string[] = [];
    const waiting = ["a", "b", "c"].map((name) => slots.acquire()!.then(() => order.push(name)));
    expect(slots.used).toBe(2);
    slots.release();
    await waiting[0];
    expect(order).toEqual(["a"]);
    slots.release();
    slots.release();
    await Promise.all(waiting);
    expect(order).toEqual(["a", "b", "c"]);
    expect(slots.used).toBe(2);
  });

  it("tell when none is taken", async () => {
    const slots = new StepSlots(1);
    await slots.idle();
    expect(slots.acquire()).toBeUndefined();
    let idle = false;
    const wait = slots.idle().then(() => {
      idle = true;
    });
    await Promise.resolve();
    expect(idle).toBe(false);
    slots.release();
    await wait;
    expect(slots.used).toBe(0);
  });
});
