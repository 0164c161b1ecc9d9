import { expect, vi } from "vitest";

/** A request that waits for its answer. */
export interface FakeRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Headers;
  readonly body: string;
  readonly signal: AbortSignal;
  /** Answers with a whole body. */
  reply(status: number, body?: string, headers?: Record<string, string>): Promise<void>;
  /** Begins an event stream; a deaf one does not notice when the client drops it. */
  stream(options?: { deaf?: boolean }): Promise<FakeStream>;
}

/** The body of a stream that is being written. Each call waits until the client has dealt with it. */
export interface FakeStream {
  send(text: string): Promise<void>;
  event(name: string, data?: string): Promise<void>;
  end(): Promise<void>;
  breakOff(): Promise<void>;
}

/** A server without a network: the test takes each request from it, in virtual time. */
export class FakeServer {
  readonly requests: FakeRequest[] = [];

  readonly fetch: typeof globalThis.fetch = (url, init) =>
    new Promise<Response>((resolve, reject) => {
      const signal = init!.signal!;
      const aborted = () => reject(new DOMException("aborted", "AbortError"));
      if (signal.aborted) return aborted();
      signal.addEventListener("abort", aborted);
      this.requests.push({
        method: init!.method!,
        path: String(url).replace("https://api.test", ""),
        headers: new Headers(init!.headers),
        body: String(init!.body ?? ""),
        signal,
        reply: (status, body = "", headers = {}) => {
          const type = status >= 400 ? "application/problem+json" : "application/json";
          const none = status === 204 || status === 304;
          resolve(new Response(none ? null : body, { status, headers: { "Content-Type": type, ...headers } }));
          return settle();
        },
        stream: async ({ deaf = false } = {}) => {
          const { response, stream } = streamingResponse(deaf ? null : signal);
          resolve(response);
          await settle();
          return stream;
        },
      });
    });

  /** The next request; the test fails when none comes within an hour. */
  async next(): Promise<FakeRequest> {
    await settle();
    for (let waited = 0; this.requests.length === 0 && waited < 3_600_000; waited += 50) {
      await vi.advanceTimersByTimeAsync(50);
    }
    expect(this.requests.length, "requests that came").toBeGreaterThan(0);
    return this.requests.shift()!;
  }

  /** Fails the test when a request comes within `ms`. */
  async quiet(ms: number): Promise<void> {
    await vi.advanceTimersByTimeAsync(ms);
    expect(this.requests.map((r) => `${r.method} ${r.path}`)).toEqual([]);
  }
}

function streamingResponse(signal: AbortSignal | null): { response: Response; stream: FakeStream } {
  let controller!: ReadableStreamDefaultController<Uint8Array>;
  const body = new ReadableStream<Uint8Array>({ start: (c) => void (controller = c) });
  let over = false;
  const fail = (error: unknown) => {
    if (!over) controller.error(error);
    over = true;
  };
  signal?.addEventListener("abort", () => fail(new DOMException("aborted", "AbortError")));
  const stream: FakeStream = {
    send: (text) => {
      if (!over) controller.enqueue(new TextEncoder().encode(text));
      return settle();
    },
    event: (name, data = "{}") => stream.send(`event: ${name}\ndata: ${data}\n\n`),
    end: () => {
      over = true;
      controller.close();
      return settle();
    },
    breakOff: () => {
      fail(new TypeError("network error"));
      return settle();
    },
  };
  return { response: new Response(body, { headers: { "Content-Type": "text/event-stream" } }), stream };
}

/** Lets everything happen that needs no time. */
export async function settle(): Promise<void> {
  await vi.advanceTimersByTimeAsync(0);
}
