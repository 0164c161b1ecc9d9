import { mediaType, problemOf, TidingsError, type Http, type HttpOptions } from "./http.js";
import { SseParser, type Message } from "./parser.js";

const BEGIN_LIMIT = 10_000;

/** What works where `fetch` gives no stream, for developers. */
const NO_STREAMS =
  "this fetch gives no response.body and so no stream; in React Native pass `fetch` of expo/fetch, or of react-native-fetch-api with its option for text streaming";

/** Throws where no answer has a body: such a fetch would answer when the stream is over, which is never. */
export function requireStreams(options: HttpOptions): void {
  if (!options.fetch && typeof Response === "function" && !("body" in Response.prototype)) throw new TypeError(NO_STREAMS);
}

/** What a stream reports. `onEnd` comes last, and once. */
export interface StreamHandlers {
  readonly onOpen: () => void;
  readonly onMessage: (message: Message) => void;
  readonly onRetry: (ms: number) => void;
  /** `status` is 200 for an orderly end, absent without an answer; `problem` belongs to any other. */
  readonly onEnd: (status: number | undefined, problem?: TidingsError) => void;
}

/** What a stream is opened with. */
export interface StreamOptions {
  readonly path: string;
  /** Sent as Last-Event-ID unless it is empty. */
  readonly cursor: string;
  /** The last event id of the stream before this one. */
  readonly seed: string;
  /** How long nothing may come before the stream counts as dead. */
  readonly watchdogMs: number;
}

/** One connection: opened when made, closed for good by `close` or its end. */
export class Stream {
  readonly #http: Http;
  readonly #options: StreamOptions;
  readonly #handlers: StreamHandlers;
  readonly #parser: SseParser;
  readonly #controller = new AbortController();
  #watchdog: ReturnType<typeof setTimeout> | undefined;
  #ended = false;

  constructor(http: Http, options: StreamOptions, handlers: StreamHandlers) {
    this.#http = http;
    this.#options = options;
    this.#handlers = handlers;
    this.#parser = new SseParser(options.seed, { onMessage: handlers.onMessage, onRetry: handlers.onRetry });
    this.#alive();
    void this.#run();
  }

  /** The id to resume after. */
  get lastEventId(): string {
    return this.#parser.lastEventId;
  }

  /** Drops the connection. Messages of the chunk that is being read are still reported. */
  close(): void {
    clearTimeout(this.#watchdog);
    this.#ended = true;
    this.#controller.abort();
  }

  async #run(): Promise<void> {
    try {
      const response = await this.#http.send(
        {
          method: "GET",
          path: this.#options.path,
          headers: { Accept: "text/event-stream", "Last-Event-ID": this.#options.cursor },
          beginMs: BEGIN_LIMIT,
        },
        this.#controller.signal,
      );
      if (this.#ended) return;
      const isStream = mediaType(response) === "text/event-stream";
      const status = response.status === 200 && !isStream ? 406 : response.status;
      if (status !== 200) {
        this.#end(status, await problemOf(response, status));
        return;
      }
      if (!response.body) {
        this.#end(406, new TidingsError(406, JSON.stringify({ code: "no_response_body", detail: NO_STREAMS })));
        return;
      }
      this.#handlers.onOpen();
      await this.#read(response.body.getReader());
    } catch {
      // No answer, a broken connection, or more than the parser takes: all the same to the reducer.
      this.#end(undefined);
    }
  }

  async #read(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<void> {
    while (!this.#ended) {
      const { done, value } = await reader.read();
      if (done) {
        this.#end(200);
        return;
      }
      if (this.#ended) return;
      this.#alive();
      this.#parser.feed(value);
    }
  }

  /** Starts the watchdog anew: something has come. */
  #alive(): void {
    clearTimeout(this.#watchdog);
    // Reported at once, not when the read notices the abort: a dead one may never.
    this.#watchdog = setTimeout(() => this.#end(undefined), this.#options.watchdogMs);
  }

  #end(status: number | undefined, problem?: TidingsError): void {
    if (this.#ended) return;
    this.close();
    this.#handlers.onEnd(status, problem);
  }
}
