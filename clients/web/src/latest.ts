/**
 * An iterator that holds one value: a reader that is slower than the writer gets the
 * newest and misses those between. It ends after a value for which `isLast` holds.
 */
export class Latest<T> implements AsyncIterator<T, undefined> {
  readonly #isLast: (value: T) => boolean;
  readonly #onEnd: () => void;
  #held: { value: T } | null = null;
  #waiting: ((result: IteratorResult<T, undefined>) => void)[] = [];
  #ended = false;

  constructor(isLast: (value: T) => boolean, onEnd: () => void) {
    this.#isLast = isLast;
    this.#onEnd = onEnd;
  }

  /** Gives a value to a waiting reader, or keeps it in place of the one before. */
  push(value: T): void {
    if (this.#ended) return;
    const reader = this.#waiting.shift();
    if (!reader) {
      this.#held = { value };
      return;
    }
    reader({ done: false, value });
    if (this.#isLast(value)) this.end();
  }

  /** Lets the reader have what is still held, and nothing after it. */
  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#onEnd();
    for (const reader of this.#waiting) reader({ done: true, value: undefined });
    this.#waiting = [];
  }

  /** The newest value not yet read, or the next one. */
  next(): Promise<IteratorResult<T, undefined>> {
    const held = this.#held;
    this.#held = null;
    if (held) {
      if (this.#isLast(held.value)) this.end();
      return Promise.resolve({ done: false, value: held.value });
    }
    if (this.#ended) return Promise.resolve({ done: true, value: undefined });
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** Called by `break`. */
  return(): Promise<IteratorResult<T, undefined>> {
    this.#held = null;
    this.end();
    return Promise.resolve({ done: true, value: undefined });
  }
}
