/** One event as the stream carried it, before anybody has looked at what it means. */
export interface Message {
  /** The last event id, sticky: an event without one carries the one before. */
  readonly id: string;
  /** The type, `message` when the stream named none. */
  readonly event: string;
  /** The data lines, joined with LF. */
  readonly data: string;
}

/** What a parser calls, inside `feed`, and where it stops. */
export interface ParserOptions {
  /** Called for each event. */
  readonly onMessage?: (message: Message) => void;
  /** Called with the milliseconds of each valid `retry` line. */
  readonly onRetry?: (ms: number) => void;
  /** How many bytes one line, and the data of one block, may hold; 1 MiB by default. */
  readonly limit?: number;
}

/** Thrown by `feed` when a line or a block holds more bytes than the limit. */
export class StreamTooLongError extends Error {
  override readonly name = "StreamTooLongError";
}

const CR = 13;
const LF = 10;
const BOM = [0xef, 0xbb, 0xbf];
const MAX_RETRY = 2147483647;

/**
 * Turns the bytes of one event stream into messages. Works on bytes, looks at each
 * of them once, and hands a message out with the byte that ends it: it never waits
 * for the next one to tell a CR from a CR LF. A parser serves one stream; the next
 * stream gets a new one, made with the `lastEventId` of this one.
 */
export class SseParser {
  readonly #options: ParserOptions;
  readonly #limit: number;
  // A decoder per line: malformed input never swallows the end of its line.
  readonly #decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  #failed = false;
  #bom = 0; // bytes of a byte order mark seen; -1 once past the start
  #afterCr = false; // an LF that comes now belongs to the CR before it
  #line: Uint8Array[] = [];
  #lineBytes = 0;
  #data = "";
  #dataBytes = 0;
  #hasData = false;
  #event = "";
  #idBuffer: string; // becomes lastEventId at the end of the block
  #lastEventId: string;
  #retry: number | null = null;

  /** Makes a parser for a stream that was asked for with `lastEventId`. */
  constructor(lastEventId = "", options: ParserOptions = {}) {
    this.#idBuffer = this.#lastEventId = lastEventId;
    this.#options = options;
    this.#limit = options.limit ?? 1 << 20;
  }

  /** The id to resume after; what the end of the stream cut off does not count. */
  get lastEventId(): string {
    return this.#lastEventId;
  }

  /** The server's newest wish for the time between two connections, in milliseconds. */
  get retry(): number | null {
    return this.#retry;
  }

  /** Reads the next bytes, however the network has cut them. */
  feed(chunk: Uint8Array): void {
    if (this.#failed) throw new StreamTooLongError("the stream was given up");
    let at = this.#skipBom(chunk);
    while (at < chunk.length) {
      if (this.#afterCr) {
        this.#afterCr = false;
        if (chunk[at] === LF) {
          at++;
          continue;
        }
      }
      let end = at;
      while (end < chunk.length && chunk[end] !== LF && chunk[end] !== CR) end++;
      this.#lineBytes += end - at;
      if (this.#lineBytes > this.#limit) this.#fail("line");
      if (end === chunk.length) {
        this.#line.push(chunk.slice(at)); // a copy: the caller may use its buffer again
        return;
      }
      this.#afterCr = chunk[end] === CR;
      this.#take(this.#wholeLine(chunk.subarray(at, end)));
      at = end + 1;
    }
  }

  /** Drops the byte order mark that may open the stream, in one chunk or in three. */
  #skipBom(chunk: Uint8Array): number {
    let at = 0;
    while (this.#bom >= 0 && at < chunk.length) {
      if (chunk[at] !== BOM[this.#bom]) {
        const looked = Uint8Array.from(BOM.slice(0, this.#bom)); // only looked like one
        this.#line.push(looked);
        this.#lineBytes += looked.length;
        this.#bom = -1;
        break;
      }
      at++;
      if (++this.#bom === BOM.length) this.#bom = -1;
    }
    return at;
  }

  #wholeLine(last: Uint8Array): Uint8Array {
    let line = last;
    if (this.#line.length > 0) {
      line = new Uint8Array(this.#lineBytes);
      let at = 0;
      for (const part of this.#line) {
        line.set(part, at);
        at += part.length;
      }
      line.set(last, at);
      this.#line = [];
    }
    this.#lineBytes = 0;
    return line;
  }

  #take(line: Uint8Array): void {
    if (line.length === 0) {
      this.#endBlock();
      return;
    }
    const colon = line.indexOf(0x3a);
    const name = this.#decoder.decode(colon < 0 ? line : line.subarray(0, colon));
    let value = colon < 0 ? new Uint8Array() : line.subarray(colon + 1);
    if (value[0] === 0x20) value = value.subarray(1);
    switch (name) {
      case "data":
        this.#dataBytes += value.length + 1;
        if (this.#dataBytes > this.#limit) this.#fail("block");
        this.#data += this.#decoder.decode(value) + "\n";
        this.#hasData = true;
        break;
      case "event":
        this.#event = this.#decoder.decode(value);
        break;
      case "id":
        if (!value.includes(0)) this.#idBuffer = this.#decoder.decode(value);
        break;
      case "retry": {
        const text = this.#decoder.decode(value);
        if (!/^[0-9]+$/.test(text)) break;
        this.#retry = Math.min(Number(text), MAX_RETRY);
        this.#options.onRetry?.(this.#retry);
      }
    }
  }

  #endBlock(): void {
    this.#lastEventId = this.#idBuffer;
    const message = { id: this.#lastEventId, event: this.#event || "message", data: this.#data.slice(0, -1) };
    const hasData = this.#hasData;
    this.#data = this.#event = "";
    this.#dataBytes = 0;
    this.#hasData = false;
    if (hasData) this.#options.onMessage?.(message);
  }

  #fail(what: string): never {
    this.#failed = true;
    this.#line = [];
    this.#data = "";
    throw new StreamTooLongError(`a ${what} of the stream is longer than ${this.#limit} bytes`);
  }
}
