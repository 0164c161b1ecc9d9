import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { fetchStatuses, subscribeSummaryStatus, Texts, TidingsError, type StatusSubscription, type SubscribeOptions, type SummaryStatus } from "../src/index.js";
import { FakeServer, settle } from "./fake-server.js";

let server: FakeServer;
let subscription: StatusSubscription;

beforeEach(() => {
  vi.useFakeTimers();
  server = new FakeServer();
  subscription = subscribeSummaryStatus({ baseUrl: "https://api.test/", sessionId: "abc-123", fetch: server.fetch });
});

afterEach(() => {
  subscription.close();
  vi.useRealTimers();
});

const stream = async () => (await server.next()).stream();

describe("statuses", () => {
  it("are those asked for, in order", async () => {
    const answer = fetchStatuses({ baseUrl: "https://api.test", workload: "guidance", fetch: server.fetch }, ["b", "a"]);
    await server.next(); // the subscription's
    const request = await server.next();
    expect(request.path).toBe("/api/v1/status?sessions=b%2Ca&workload=guidance");
    await request.reply(200, '{"statuses":[{"event":"retrying","session_id":"b","attempt":2},{"event":"idle","session_id":"a"}]}');
    expect((await answer).map((e) => [e.sessionId, e.name, e.attempt])).toEqual([["b", "retrying", 2], ["a", "idle", null]]);
  });
});

describe("states", () => {
  it("stop the spinner after 30 s, whatever comes later", async () => {
    const s = await stream();
    await vi.advanceTimersByTimeAsync(29_990);
    expect(subscription.getSnapshot().spinner).toBe(true);
    await vi.advanceTimersByTimeAsync(10);
    expect(subscription.getSnapshot()).toMatchObject({ spinner: false, messageKey: "session_summary_taking_longer", connection: "open" });
    await s.event("retrying");
    expect(subscription.getSnapshot().spinner).toBe(false);
  });

  it("reach a slow reader as the newest only, in order, until the job is completed", async () => {
    const seen: SummaryStatus[] = [];
    const reader = subscription[Symbol.asyncIterator]();
    seen.push((await reader.next()).value!);
    const s = await stream();
    for (let attempt = 1; attempt <= 100; attempt++) {
      await s.event("retrying", JSON.stringify({ seq: attempt, attempt }));
    }
    seen.push((await reader.next()).value!);
    const last = reader.next();
    await s.event("completed");
    seen.push((await last).value!);
    expect(seen.map((status) => [status.phase, status.retryAttempt])).toEqual([["loading", null], ["retrying", 100], ["done", null]]);
    expect((await reader.next()).done).toBe(true);
  });

  it("end for a reader that waits when the subscription is closed", async () => {
    const phases: string[] = [];
    const reading = (async () => {
      for await (const status of subscription) phases.push(status.phase);
    })();
    await settle();
    subscription.close();
    await reading;
    expect(phases).toEqual(["loading"]);
  });

  it("keep one snapshot until something changes", async () => {
    const s = await stream();
    const before = subscription.getSnapshot();
    const listener = vi.fn();
    const stop = subscription.subscribe(listener);
    await s.send("retry: 700\n: nothing new\n\n");
    expect(subscription.getSnapshot()).toBe(before);
    expect(listener).not.toHaveBeenCalled();
    await s.event("processing");
    expect(listener).toHaveBeenCalledTimes(1);
    stop();
    await s.event("retrying");
    expect(listener).toHaveBeenCalledTimes(1);
  });

  it("go on when a listener throws", async () => {
    const s = await stream();
    const error = new Error("the app's mistake");
    subscription.subscribe(() => {
      throw error;
    });
    const shown = vi.fn();
    subscription.subscribe(shown);
    const sent = s.event("processing");
    await expect(sent).rejects.toBe(error); // reported on a timer of its own
    expect(shown).toHaveBeenCalled();
    expect(subscription.getSnapshot()).toMatchObject({ connection: "open", event: { name: "processing" } });
  });
});

describe("countdown", () => {
  it("runs on the client's clock by what the server said was left", async () => {
    const s = await stream();
    // The server's clock is years off.
    await s.event("retrying", '{"retry_in_ms":28500,"next_retry_at":"2031-01-01T00:00:30.000Z","server_time":"2031-01-01T00:00:00.000Z"}');
    expect(subscription.retryInMs()).toBe(28_500);
    await vi.advanceTimersByTimeAsync(8_500);
    vi.setSystemTime(Date.now() + 3_600_000); // somebody sets the device's clock
    expect(subscription.retryInMs()).toBe(20_000);
    await vi.advanceTimersByTimeAsync(22_000);
    expect(subscription.retryInMs()).toBe(0);
    await s.event("retrying", '{"next_retry_at":"2031-01-01T00:01:00.000Z","server_time":"2031-01-01T00:00:30.000Z"}');
    expect(subscription.retryInMs()).toBe(30_000);
    await s.event("processing");
    expect(subscription.retryInMs()).toBeNull();
    await s.event("error", '{"retry_available_at":"2031-01-01T00:02:00.000Z","server_time":"2031-01-01T00:01:00.000Z"}');
    expect(subscription.retryAllowedInMs()).toBe(60_000);
  });

  it("ends with a refused stream", async () => {
    const s = await stream();
    await s.event("retrying", '{"retry_in_ms":28500}');
    await s.breakOff();
    await (await server.next()).reply(403, "{}");
    expect(subscription.getSnapshot()).toMatchObject({ phase: "error", nextTryAt: null });
    expect(subscription.retryInMs()).toBeNull();
  });
});

describe("retry", () => {
  it("gives up after ten seconds", async () => {
    await (await stream()).event("error");
    const answer = subscription.retry();
    const request = await server.next();
    expect([request.method, request.path]).toEqual(["POST", "/api/v1/sessions/abc-123/summary/retry"]);
    expect(subscription.getSnapshot()).toMatchObject({ phase: "loading", spinner: true, canRetry: false });
    await vi.advanceTimersByTimeAsync(9_900);
    expect(subscription.getSnapshot().phase).toBe("loading");
    await vi.advanceTimersByTimeAsync(100);
    expect(await answer).toBe(false);
    expect(subscription.getSnapshot()).toMatchObject({ phase: "error", canRetry: true, problem: null });
    expect(request.signal.aborted).toBe(true);
  });

  it("shows how long to wait", async () => {
    await (await stream()).event("error");
    const answer = subscription.retry();
    await (await server.next()).reply(429, '{"code":"wait_required","detail":"Wait."}', { "Retry-After": "12" });
    expect(await answer).toBe(false);
    expect(subscription.getSnapshot().problem).toMatchObject({ status: 429, code: "wait_required", detail: "Wait.", retryAfterMs: 12_000 });
    expect(subscription.retryAllowedInMs()).toBe(12_000);
  });

  it("forgets at another tap why the last one was refused", async () => {
    await (await stream()).event("error");
    const refused = subscription.retry();
    await (await server.next()).reply(429, "", { "Retry-After": "12" });
    await refused;
    expect(subscription.getSnapshot()).toMatchObject({ problem: { status: 429 }, retryFrom: expect.any(Number) });
    void subscription.retry();
    await server.next();
    expect(subscription.getSnapshot()).toMatchObject({ problem: null, retryFrom: null });
  });

  it("does nothing where it is not offered", async () => {
    const s = await stream();
    expect(await subscription.retry()).toBe(false);
    await s.event("error", '{"can_retry":false}');
    expect(subscription.getSnapshot()).toMatchObject({ phase: "error", canRetry: false });
    expect(await subscription.retry()).toBe(false);
    await server.quiet(60_000);
  });

  it("is overtaken by a submission", async () => {
    await (await stream()).event("error");
    const answer = subscription.retry();
    const late = await server.next();
    const submitted = subscription.submit({ input: { text: "hei" } });
    await (await server.next()).reply(202, "{}");
    await submitted;
    await (await stream()).event("error");
    void subscription.retry();
    await server.next(); // the second retry, still without an answer
    await late.reply(202, "{}");
    expect(await answer).toBe(false);
    await server.quiet(1_000); // the first one's answer opens no stream
    expect(subscription.getSnapshot().connection).toBe("closed");
  });
});

describe("requests", () => {
  it("follow a submitted job from its start, whatever came of the one before", async () => {
    await (await stream()).send('id: 7\nevent: completed\ndata: {"seq":7}\n\n');
    await vi.advanceTimersByTimeAsync(60_000);
    const submitted = subscription.submit({ input: { text: "hei" }, replace: true });
    const post = await server.next();
    expect(post.path).toBe("/api/v1/sessions/abc-123/summary?replace=true");
    expect(post.headers.get("Idempotency-Key")).toMatch(/^[0-9a-f]{32}$/);
    expect(post.body).toBe('{"input":{"text":"hei"}}');
    await post.reply(202, '{"job_id":"J","status":"queued"}');
    expect(await submitted).toEqual({ jobId: "J", status: "queued" });
    const request = await server.next();
    expect(request.headers.get("Last-Event-ID")).toBeNull();
    await (await request.stream()).send('id: 3\nevent: processing\ndata: {"seq":3}\n\n');
    expect(subscription.getSnapshot()).toMatchObject({ phase: "loading", spinner: true, outcome: "pending", lastEventId: "3" });
  });

  it("renew the token once, also beside the stream", async () => {
    subscription.close();
    const getToken = vi.fn(({ refresh }: { refresh: boolean }) => (refresh ? "new" : "old"));
    subscription = subscribeSummaryStatus({ baseUrl: "https://api.test", sessionId: "a:b", workload: "guidance", fetch: server.fetch, getToken });
    await server.next(); // of the subscription closed above
    await (await server.next()).stream();
    const cancelled = subscription.cancel().catch((e: unknown) => e);
    await (await server.next()).reply(401, "{}");
    const again = await server.next();
    expect([again.method, again.path]).toEqual(["DELETE", "/api/v1/sessions/a%3Ab/guidance/job"]);
    expect(again.headers.get("Authorization")).toBe("Bearer new");
    await again.reply(403, '{"code":"forbidden","title":"No access","request_id":"R","field":"f","job_id":"J"}');
    const error = await cancelled;
    expect(error).toBeInstanceOf(TidingsError);
    expect(error).toMatchObject({ status: 403, code: "forbidden", title: "No access", requestId: "R", field: "f", jobId: "J", retryAfterMs: 0 });
  });

  it("read Retry-After as a date, too", async () => {
    const document = subscription.document().catch((e: unknown) => e);
    await server.next(); // the stream
    await (await server.next()).reply(503, "{}", { "Retry-After": "Tue, 07 Apr 2026 12:00:30 GMT", Date: "Tue, 07 Apr 2026 12:00:00 GMT" });
    expect(await document).toMatchObject({ status: 503, retryAfterMs: 30_000 });
  });
});

it("requests give up after thirty seconds", async () => {
  await server.next(); // the stream
  const texts = new Texts({ baseUrl: "https://api.test", fetch: server.fetch });
  for (const ask of [() => subscription.submit({ input: { text: "hei" } }), () => subscription.document(), () => texts.load()]) {
    let over = false;
    const answer = expect(ask().finally(() => { over = true; })).rejects.toThrow("no answer within 30000 ms");
    await server.next(); // never answered
    await vi.advanceTimersByTimeAsync(29_900);
    expect(over).toBe(false);
    await vi.advanceTimersByTimeAsync(100);
    await answer;
  }
});

describe("options", () => {
  const options = (baseUrl: unknown, sessionId: unknown = "abc-123") => ({ baseUrl, sessionId, fetch: server.fetch }) as SubscribeOptions;

  it("that cannot work are refused, with what to write instead", () => {
    for (const url of [undefined, null, "127.0.0.1:8080", "tidings.example", "//tidings.example", "ftp://tidings.example", "https://", "https://a.test/?b=c", "https://a.test#d"]) {
      expect(() => subscribeSummaryStatus(options(url)), String(url)).toThrow(/baseUrl .* is not an absolute http or https URL; write for example/);
      expect(() => new Texts(options(url)), String(url)).toThrow(TypeError);
    }
    for (const id of [null, 7, {}]) expect(() => subscribeSummaryStatus(options("https://api.test", id))).toThrow(/sessionId is missing/);
    expect(() => subscribeSummaryStatus(undefined as unknown as SubscribeOptions)).toThrow(/sessionId is missing/);
  });

  it("may name a server, a place on it, and the page's own origin", async () => {
    for (const [url, path] of [["https://api.test", ""], ["HTTPS://API.test/base/", "HTTPS://API.test/base"], ["", ""], ["/", ""], ["/base", "/base"]] as const) {
      server.requests.length = 0;
      const other = subscribeSummaryStatus(options(url));
      await settle();
      expect(server.requests.at(-1)!.path, url).toBe(`${path}/api/v1/sessions/abc-123/summary/status`);
      other.close();
    }
  });
});

it("an error says for developers what it says for people", async () => {
  await server.next(); // the stream
  const document = expect(subscription.document()).rejects.toThrow("the server answered 400 invalid_session_id: 1 to 128 characters.");
  await (await server.next()).reply(400, JSON.stringify({ code: "invalid_session_id", detail: "1 to 128 characters." }));
  await document;
});
