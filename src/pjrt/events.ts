/**
 * Waiting for device work without blocking the event loop and without a thread per wait.
 *
 * Each wait on a pool thread takes one of Node's four pool threads, which files and names also need. So each lane has few
 * waits at a time, on its oldest events, and whenever one ends every event that is ready by then is settled.
 */
import type { PjrtApi } from "./api.ts";
import type { Pointer } from "./native.ts";

interface Waiter {
  readonly event: Pointer;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
  /** Memory the device uses until then. */
  readonly held: unknown;
  /** On a pool thread: only its own completion may settle it. */
  awaited: boolean;
}

export class EventLane {
  readonly #api: PjrtApi;
  readonly #maxThreads: number;
  #threads = 0;
  #waiters: Waiter[] = [];

  constructor(api: PjrtApi, maxThreads: number) {
    this.#api = api;
    this.#maxThreads = maxThreads;
  }

  /** Resolves when the event is ready and frees it; rejects with the event's error. Keeps `held` alive until then. */
  wait(event: Pointer, held?: unknown): Promise<void> {
    return new Promise((resolve, reject) => {
      const waiter = { event, resolve, reject, held, awaited: false };
      if (this.#isReady(waiter)) {
        this.#settle(waiter, () => this.#error(waiter));
        return;
      }
      this.#waiters.push(waiter);
      this.#startThreads();
    });
  }

  #isReady({ event }: Waiter): boolean {
    return this.#api.call("Event_IsReady", { event }).is_ready;
  }

  /** Throws what a ready event failed with. */
  #error({ event }: Waiter): void {
    this.#api.call("Event_Error", { event });
  }

  #settleReady(): void {
    const ready: Waiter[] = [];
    this.#waiters = this.#waiters.filter((waiter) => {
      if (waiter.awaited || !this.#isReady(waiter)) return true;
      ready.push(waiter);
      return false;
    });
    for (const waiter of ready) this.#settle(waiter, () => this.#error(waiter));
  }

  #startThreads(): void {
    for (const waiter of this.#waiters) {
      if (this.#threads >= this.#maxThreads) return;
      if (waiter.awaited) continue;
      waiter.awaited = true;
      this.#threads++;
      const done = (outcome: () => void) => {
        this.#threads--;
        this.#waiters = this.#waiters.filter((other) => other !== waiter);
        this.#settle(waiter, outcome);
        this.#settleReady();
        this.#startThreads();
      };
      this.#api.callAsync("Event_Await", { event: waiter.event }).then(
        () => done(() => {}),
        (error: unknown) =>
          done(() => {
            throw error;
          }),
      );
    }
  }

  #settle(waiter: Waiter, outcome: () => void): void {
    let failure: { readonly error: unknown } | undefined;
    try {
      outcome();
    } catch (error) {
      failure = { error };
    }
    this.#api.call("Event_Destroy", { event: waiter.event }, waiter.held);
    if (failure === undefined) waiter.resolve();
    else waiter.reject(failure.error);
  }
}
