/** A bound on the steps in flight, first come first served. */
export class StepSlots {
  readonly #max: number;
  #used = 0;
  readonly #waiting: (() => void)[] = [];
  readonly #idle: (() => void)[] = [];

  constructor(max: number) {
    this.#max = max;
  }

  get used(): number {
    return this.#used;
  }

  /** Takes a slot: at once (undefined), so that a call can dispatch before it returns, or when the promise resolves. */
  acquire(): Promise<void> | undefined {
    if (this.#used < this.#max) {
      this.#used++;
      return undefined;
    }
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** Gives a slot back, to the first who waits. */
  release(): void {
    const next = this.#waiting.shift();
    if (next !== undefined) {
      next();
      return;
    }
    this.#used--;
    if (this.#used === 0) for (const wake of this.#idle.splice(0)) wake();
  }

  /** Resolves when no slot is taken. */
  async idle(): Promise<void> {
    while (this.#used > 0) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }
}
