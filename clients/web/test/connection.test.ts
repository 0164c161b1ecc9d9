import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { subscribeSummaryStatus, type StatusSubscription, type SubscribeOptions } from "../src/index.js";
import { FakeServer, settle, type FakeRequest } from "./fake-server.js";

let server: FakeServer;
let subscription: StatusSubscription;

function open(options: Partial<SubscribeOptions> = {}): void {
  subscription = subscribeSummaryStatus({ baseUrl: "https://api.test", sessionId: "abc-123", fetch: server.fetch, ...options });
}

beforeEach(() => {
  vi.useFakeTimers();
  server = new FakeServer();
});

afterEach(() => {
  subscription.close();
  expect(vi.getTimerCount(), "timers left behind").toBe(0);
  vi.useRealTimers();
});

/** How long it takes until the next request comes. */
async function waitFor(expected: number): Promise<{ request: FakeRequest; early: boolean }> {
  await vi.advanceTimersByTimeAsync(expected - 1);
  const early = server.requests.length > 0;
  await vi.advanceTimersByTimeAsync(1);
  const request = server.requests.shift()!;
  return { request, early };
}

describe("watchdog", () => {
  it("drops a stream on which nothing has come for 45 s; comments count", async () => {
    open();
    const request = await server.next();
    const stream = await request.stream();
    await vi.advanceTimersByTimeAsync(44_000);
    await stream.send(": heartbeat\n\n");
    await vi.advanceTimersByTimeAsync(44_999);
    expect(subscription.getSnapshot().connection).toBe("open");
    await vi.advanceTimersByTimeAsync(1);
    expect(subscription.getSnapshot().connection).toBe("reconnecting");
    expect(request.signal.aborted).toBe(true);
  });

  it("gives an answer 10 s to begin", async () => {
    vi.spyOn(Math, "random").mockReturnValue(0);
    open();
    const request = await server.next(); // never answered
    await vi.advanceTimersByTimeAsync(9_999);
    expect(request.signal.aborted).toBe(false);
    const { request: second } = await waitFor(1_001);
    expect(request.signal.aborted).toBe(true);
    expect(second).toBeDefined();
  });

  it("covers a token that never comes", async () => {
    open({ getToken: () => new Promise(() => {}) });
    await vi.advanceTimersByTimeAsync(44_999);
    expect(subscription.getSnapshot().resubscribeAtMs).toBeNull();
    await vi.advanceTimersByTimeAsync(1);
    expect(subscription.getSnapshot().resubscribeAtMs).toBe(46_000);
  });

  it("is not deceived by a read that never settles", async () => {
    open();
    await (await server.next()).stream({ deaf: true });
    await vi.advanceTimersByTimeAsync(45_000);
    expect(subscription.getSnapshot().connection).toBe("reconnecting");
  });
});

describe("backoff", () => {
  it.each([[0, 1], [1, 1.25]])("with random %d waits %d times as long", async (random, factor) => {
    vi.spyOn(Math, "random").mockReturnValue(random);
    open();
    await (await server.next()).reply(503);
    for (const delay of [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]) {
      const { request, early } = await waitFor(Math.floor(delay * factor));
      expect({ delay, early, came: request !== undefined }).toEqual({ delay, early: false, came: true });
      await request.reply(503);
    }
  });

  it.each([429, 503])("begins with what a %d asks for", async (status) => {
    vi.spyOn(Math, "random").mockReturnValue(0);
    for (const [after, ...waits] of [["10", 10_000, 20_000], ["1", 1_000, 2_000], ["0", 1_000, 2_000], ["99999999999", 30_000, 30_000]] as const) {
      open();
      await (await server.next()).reply(status, "", { "Retry-After": after });
      for (const wait of waits) {
        const { request, early } = await waitFor(wait);
        expect({ after, wait, early, came: request !== undefined }).toEqual({ after, wait, early: false, came: true });
        await request.reply(503);
      }
      subscription.close();
    }
  });

  it("starts over after an event, not after a mere open", async () => {
    vi.spyOn(Math, "random").mockReturnValue(0);
    open();
    await (await server.next()).reply(503);
    await (await waitFor(1_000)).request.reply(503);
    const stream = await (await waitFor(2_000)).request.stream();
    await stream.breakOff();
    const next = await (await waitFor(4_000)).request.stream();
    await next.event("processing");
    await next.breakOff();
    await (await waitFor(1_000)).request.reply(204);
  });

  it("leaves the two seconds after idle alone", async () => {
    vi.spyOn(Math, "random").mockReturnValue(1);
    open();
    const stream = await (await server.next()).stream();
    await stream.event("idle");
    await stream.end();
    const { request, early } = await waitFor(2_000);
    expect(early).toBe(false);
    await request.reply(204);
  });
});

describe("planned ends", () => {
  it("do not grow the backoff: an event says that the resume worked", async () => {
    vi.spyOn(Math, "random").mockReturnValue(0);
    open();
    let request = await server.next();
    for (let i = 0; i < 5; i++) {
      const stream = await request.stream();
      await stream.send("retry: 500\n");
      await stream.event("resumed");
      await stream.end();
      ({ request } = await waitFor(500));
    }
    expect(request).toBeDefined();
  });
});

describe("countdown", () => {
  const events = {
    retrying: '{"attempt":1,"retry_in_ms":30000}',
    queued: '{"server_time":"2026-12-01T12:00:00.000Z","not_before":"2026-12-01T12:00:30.000Z"}',
  };

  it.each(Object.entries(events))("of %s without news for 3 s asks on a new connection, and says so", async (event, data) => {
    open();
    const request = await server.next();
    await (await request.stream()).send(`id: 7\nevent: ${event}\ndata: ${data}\n\n`);
    expect(subscription.retryInMs()).toBe(30_000);
    await server.quiet(32_999);
    const { request: second, early } = await waitFor(1);
    expect({ early, after: second?.headers.get("Last-Event-ID") }).toEqual({ early: false, after: "7" });
    expect(request.signal.aborted).toBe(true);
    expect(subscription.getSnapshot().messageKey).toBe("session_checking_connection");
    await second!.stream();
    expect(subscription.getSnapshot().messageKey).not.toBe("session_checking_connection");
    await server.quiet(40_000); // once for each countdown: the watchdog has the rest
  });

  it("with news asks nothing", async () => {
    open();
    const stream = await (await server.next()).stream();
    await stream.event("retrying", events.retrying);
    await vi.advanceTimersByTimeAsync(32_000);
    await stream.event("processing");
    await server.quiet(40_000);
    expect(subscription.retryInMs()).toBeNull();
  });
});

describe("hooks", () => {
  it("tell of open, lost and scheduled streams, and of the end", async () => {
    vi.spyOn(Math, "random").mockReturnValue(0);
    const told: unknown[] = [];
    open({
      headers: { traceparent: "00-1-2-01" },
      onOpen: () => told.push("open"),
      onError: (problem) => told.push(["error", problem?.status ?? null]),
      onRetrying: (delayMs) => told.push(["retrying", delayMs]),
      onComplete: (status) => told.push(["complete", status.outcome]),
    });
    const first = await server.next();
    expect(first.headers.get("traceparent")).toBe("00-1-2-01");
    await (await first.stream()).breakOff();
    await (await waitFor(1_000)).request.reply(503);
    const stream = await (await waitFor(2_000)).request.stream();
    await stream.end();
    const last = await (await waitFor(4_000)).request.stream();
    await last.event("completed");
    expect(told).toEqual([
      "open", ["error", null], ["retrying", 1_000], ["error", 503], ["retrying", 2_000], "open", ["retrying", 4_000], "open", ["complete", "completed"],
    ]);
  });
});

describe("without streams", () => {
  it("says so at once where no answer has a body", () => {
    class WithoutBody {}
    vi.stubGlobal("Response", WithoutBody);
    expect(() => subscribeSummaryStatus({ baseUrl: "https://api.test", sessionId: "abc-123" })).toThrow(/expo\/fetch/);
    vi.unstubAllGlobals();
    open();
  });

  it("says so when a fetch of the app's own gives none", async () => {
    open({ fetch: () => Promise.resolve(Object.create({ status: 200, ok: true, headers: new Headers({ "Content-Type": "text/event-stream" }) })) });
    await settle();
    const { phase, connection, problem } = subscription.getSnapshot();
    expect({ phase, connection, code: problem?.code }).toEqual({ phase: "error", connection: "closed", code: "no_response_body" });
    expect(problem!.message).toMatch(/expo\/fetch/);
  });
});

describe("generations", () => {
  it("does not hear an older stream", async () => {
    open();
    const old = await (await server.next()).stream({ deaf: true });
    await old.send("id: 1\nevent: processing\ndata: {}\n\n");
    subscription.foreground();
    const request = await server.next();
    expect(request.headers.get("Last-Event-ID")).toBe("1");
    await (await request.stream()).send("id: 5\nevent: retrying\ndata: {}\n\n");
    await old.send("id: 2\nevent: completed\ndata: {}\n\n");
    await old.end();
    expect(subscription.getSnapshot()).toMatchObject({ phase: "retrying", lastEventId: "5", connection: "open" });
  });

  it("does not hear the rest of a chunk after the app has asked for a new stream", async () => {
    open();
    const old = await (await server.next()).stream();
    const stop = subscription.subscribe(() => {
      if (subscription.getSnapshot().event?.name !== "processing") return;
      stop();
      subscription.foreground();
    });
    await old.send("id: 1\nevent: processing\ndata: {}\n\nid: 2\nevent: completed\ndata: {}\n\n");
    expect(subscription.getSnapshot()).toMatchObject({ phase: "loading", lastEventId: "1", connection: "reconnecting" });
    expect((await server.next()).headers.get("Last-Event-ID")).toBe("1");
  });

  it("leaves one stream, however often the page returns", async () => {
    open();
    const requests = [];
    for (let i = 0; i < 50; i++) {
      const request = await server.next();
      await request.stream();
      requests.push(request);
      subscription.foreground();
    }
    await (await server.next()).stream();
    expect(requests.filter((request) => !request.signal.aborted)).toEqual([]);
  });

  it("seeds the next parser, so that an event without an id keeps the position", async () => {
    open();
    const stream = await (await server.next()).stream();
    await stream.send("id: 8\nevent: processing\ndata: {}\n\n");
    subscription.foreground();
    await (await (await server.next()).stream()).event("processing");
    expect(subscription.getSnapshot().lastEventId).toBe("8");
  });
});

describe("ends", () => {
  it.each(["completed", "error"])("asks nothing after %s", async (event) => {
    open();
    const request = await server.next();
    await (await request.stream()).event(event);
    expect(request.signal.aborted).toBe(true);
    subscription.foreground();
    await server.quiet(3_600_000);
  });

  it("still takes a completed right behind an error", async () => {
    open();
    await (await (await server.next()).stream()).send("event: error\ndata: {}\n\nevent: completed\ndata: {}\n\n");
    expect(subscription.getSnapshot().phase).toBe("done");
  });

  it("gives a line without end up", async () => {
    open();
    const request = await server.next();
    const stream = await request.stream();
    await stream.send("data: " + "x".repeat(1 << 20));
    expect(subscription.getSnapshot().connection).toBe("reconnecting");
    expect(request.signal.aborted).toBe(true);
  });

  it("tries again when there was no token", async () => {
    const getToken = vi.fn().mockRejectedValueOnce(new Error("no network")).mockResolvedValue("good");
    open({ getToken });
    const request = await server.next();
    expect(request.headers.get("Authorization")).toBe("Bearer good");
  });

  it("drops everything on close and on abort", async () => {
    const controller = new AbortController();
    open({ signal: controller.signal });
    const request = await server.next();
    const stream = await request.stream({ deaf: true });
    controller.abort();
    expect(request.signal.aborted).toBe(true);
    await stream.event("completed");
    subscription.foreground();
    subscription.dismiss();
    expect(await subscription.retry()).toBe(false);
    await settle();
    expect(subscription.getSnapshot().phase).toBe("loading");
    expect(server.requests).toEqual([]);
  });
});
