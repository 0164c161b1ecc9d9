import type { StatusEvent } from "@tidings/client";

/** One call to the model. `status` is the provider's, once the ledger has told it. */
export interface Call {
  state: "running" | "failed" | "done";
  reason: string | null;
  status: number | null;
  tookMs: number | null;
}

/** A wait, on the page's clock: after a call, or after an attempt. */
export interface Wait {
  readonly from: number;
  readonly until: number;
  readonly reason: string | null;
  over: "" | "waited" | "run_now" | "lost";
}

/** One attempt, with its calls and the pauses after each, by number from 1. */
export interface Attempt {
  readonly startedAt: number;
  readonly calls: Map<number, Call>;
  readonly pauses: Map<number, Wait>;
  /** The queue's wait after it. */
  wait: Wait | null;
  over: "" | "failed" | "done";
}

/**
 * What has happened to one job, put together from its events. What they do not say
 * comes from the ledger.
 */
export class History {
  readonly attempts = new Map<number, Attempt>();
  maxAttempts = 4;
  maxCalls = 3;
  startedAt: number;
  endedAt: number | null = null;
  jobId: string | null = null;
  /** The server has forgotten the job before its end: it was restarted without its memory. */
  lost = false;

  constructor(startedAt: number) {
    this.startedAt = startedAt;
  }

  /** Takes an event at a moment of the page's clock. */
  take(e: StatusEvent, now: number): void {
    if (e.name === "idle") {
      if (this.jobId !== null && this.endedAt === null) this.#lose(now);
      return;
    }
    if (e.jobId !== this.jobId) {
      if (this.jobId !== null) {
        this.attempts.clear();
        this.startedAt = now;
        this.endedAt = null;
        this.lost = false;
      }
      this.jobId = e.jobId;
    }
    this.maxAttempts = e.maxAttempts ?? this.maxAttempts;
    this.maxCalls = e.maxCalls ?? this.maxCalls;
    const n = e.attempt ?? 0;
    if (n === 0) return;
    const a = this.#attempt(n, now);
    switch (e.name) {
      case "processing":
        this.#begin(n, e.call ?? 1, now);
        break;
      case "queued":
        if (a.wait && e.reason === "run_by_user") a.wait.over = "run_now";
        // Put back before its first call: the attempt comes again under the same number.
        for (const [k, later] of this.attempts) if (k > n && ![...later.calls.values()].some((c) => c.state !== "running")) this.attempts.delete(k);
        break;
      case "retrying": {
        const wait: Wait = { from: now, until: now + (e.retryInMs ?? 0), reason: e.reason, over: "" };
        if (e.layer === "call") {
          this.#fail(a, e.call ?? 1, e.reason);
          a.pauses.set(e.call ?? 1, wait);
        } else {
          this.#fail(a, Math.max(1, ...a.calls.keys()), e.reason);
          a.over = "failed";
          const known = a.wait && Math.abs(a.wait.until - wait.until) < 1000; // a new stream repeats the state
          if (!known) a.wait = wait;
        }
        break;
      }
      case "completed":
        for (const p of a.pauses.values()) p.over ||= "waited";
        this.#call(a, Math.max(1, ...a.calls.keys())).state = "done";
        a.over = "done";
        this.endedAt = now;
        break;
      case "error":
        for (const [k, c] of a.calls) if (c.state === "running") this.#fail(a, k, e.reason);
        if (a.wait) a.wait.over ||= "waited";
        a.over = "failed";
        this.endedAt = now;
        break;
    }
  }

  /** Adds what the ledger knows: statuses and durations, and calls that were over before the stream was open. */
  enrich(ledger: unknown): void {
    const o = ledger as { job_id?: unknown; calls?: unknown };
    if (o?.job_id !== this.jobId || !Array.isArray(o.calls)) return;
    for (const row of o.calls as Record<string, unknown>[]) {
      const a = this.attempts.get(Number(row["attempt"]));
      if (!a) continue;
      const c = this.#call(a, Number(row["call"]));
      c.status = typeof row["provider_status"] === "number" ? row["provider_status"] : null;
      c.tookMs = typeof row["duration_ms"] === "number" ? row["duration_ms"] : null;
      if (typeof row["class"] === "string") this.#fail(a, Number(row["call"]), row["class"]);
    }
  }

  #lose(now: number): void {
    this.lost = true;
    this.endedAt = now;
    for (const a of this.attempts.values()) {
      for (const [k, c] of a.calls) if (c.state === "running") this.#fail(a, k, "lost");
      for (const wait of [a.wait, ...a.pauses.values()]) if (wait) wait.over ||= "lost";
    }
  }

  #attempt(n: number, now: number): Attempt {
    let a = this.attempts.get(n);
    if (!a) {
      a = { startedAt: now, calls: new Map(), pauses: new Map(), wait: null, over: "" };
      this.attempts.set(n, a);
    }
    return a;
  }

  #begin(n: number, call: number, now: number): void {
    const before = this.attempts.get(n - 1)?.wait;
    if (before) before.over ||= "waited";
    const a = this.#attempt(n, now);
    const pause = a.pauses.get(call - 1);
    if (pause) pause.over = "waited";
    this.#call(a, call).state = "running";
  }

  #fail(a: Attempt, call: number, reason: string | null): void {
    const c = this.#call(a, call);
    c.state = "failed";
    c.reason ??= reason;
  }

  /** A call; those before it were made, and failed, also when nobody was there to see it. */
  #call(a: Attempt, call: number): Call {
    for (let k = 1; k <= call; k++) {
      if (!a.calls.has(k)) a.calls.set(k, { state: k < call ? "failed" : "running", reason: null, status: null, tookMs: null });
    }
    return a.calls.get(call)!;
  }
}
