import type { StatusEvent } from "./event.js";
import { Http, TidingsError, type HttpOptions } from "./http.js";
import {
  createMachine, isRefusal, nextTick, reduce, stateOf,
  type Effect, type Happening, type Machine, type State,
} from "./reducer.js";
import { Latest } from "./latest.js";
import { ledgerOf, type Ledger } from "./ledger.js";
import { NO_STREAMS, Stream } from "./stream.js";
import { documentOf, jobOf, randomKey, submissionBody, type Document, type Job, type Submission } from "./documents.js";
import { onReturn } from "./visibility.js";

const WATCHDOG = 45_000; // three heartbeats of 15 s
const TAP_LIMIT = 10_000; // somebody waits with a finger on the screen
const CALL_LIMIT = 30_000;
const CHECK_AFTER = 3_000; // past the end of a countdown

/** What to follow, and how. */
export interface SubscribeOptions extends HttpOptions {
  /** The conversation in the app, 1 to 128 of `A-Z a-z 0-9 . _ : -`. */
  readonly sessionId: string;
  /** `summary` (the default), `guidance` or `classification`. */
  readonly workload?: string | undefined;
  /** Closes the subscription when it aborts. */
  readonly signal?: AbortSignal | undefined;
  /** Replaces the 45 seconds after which a silent stream counts as dead. */
  readonly watchdogMs?: number | undefined;
  /** False leaves it to the app to call `foreground` when its page is visible again. */
  readonly autoForeground?: boolean | undefined;
  /** A monotonic clock in milliseconds; `performance.now` by default. */
  readonly now?: (() => number) | undefined;
  /** A stream is open. */
  readonly onOpen?: (() => void) | undefined;
  /** A stream was lost, or refused for a reason: null without an answer. */
  readonly onError?: ((problem: TidingsError | null) => void) | undefined;
  /** The next stream is opened in so many milliseconds. */
  readonly onRetrying?: ((delayMs: number) => void) | undefined;
  /** The job is completed. */
  readonly onComplete?: ((status: SummaryStatus) => void) | undefined;
}

/** A state with what the app may want to show beside it. */
export interface SummaryStatus extends State {
  /** Whether to offer "try again": the state allows it and the server's last event does not refuse it. */
  readonly canRetry: boolean;
  /** The last accepted event. */
  readonly event: StatusEvent | null;
  /** When a job that waits goes on, on the subscription's own clock; see `retryInMs`. */
  readonly nextTryAt: number | null;
  /** When the server takes a retry by hand again, on the same clock; see `retryAllowedInMs`. */
  readonly retryFrom: number | null;
  /** Why the server refused the stream or the last retry. */
  readonly problem: TidingsError | null;
}

/** The status before anything is known. */
export function initialStatus(sessionId: string, workload?: string): SummaryStatus {
  return { ...stateOf(createMachine(sessionId, workload)), event: null, nextTryAt: null, retryFrom: null, problem: null };
}

/** Follows a session's status from now until `close`. Throws a `TypeError` for options that cannot work. */
export function subscribeSummaryStatus(options: SubscribeOptions): StatusSubscription {
  return new StatusSubscription(options);
}

/**
 * A session's status and what its user can do about it. It owns the connection: a view
 * may come and go. Iterating gives the newest state each time, until the job is
 * completed or the subscription closed; a slow reader misses the states in between.
 */
export class StatusSubscription implements AsyncIterable<SummaryStatus> {
  readonly #options: SubscribeOptions;
  readonly #http: Http;
  readonly #now: () => number;
  readonly #path: string;
  readonly #listeners = new Set<() => void>();
  readonly #iterators = new Set<Latest<SummaryStatus>>();
  readonly #stopWatching: () => void;
  #machine: Machine;
  #epoch = 0; // counts machines
  #made = 0; // time 0 of the machine
  #lateMs = 0; // random extra on the scheduled subscribe
  #timer: ReturnType<typeof setTimeout> | undefined;
  #generation = 0; // of the stream; what an older one says is dropped
  #stream: Stream | null = null;
  #fresh = false; // the next subscribe goes without a position
  #closed = false;
  #problem: TidingsError | null = null;
  #nextTryAt: number | null = null;
  #retryFrom: number | null = null;
  #checkAt: number | null = null; // the end of a countdown and a little
  #checking = false; // it has run out without news, and a new stream has not opened yet
  #status: SummaryStatus;

  constructor(options: SubscribeOptions) {
    // Without types this is easily forgotten, and there is a session "undefined" to be followed.
    if (typeof options?.sessionId !== "string") throw new TypeError("sessionId is missing; give the id of the conversation to follow");
    // Such a fetch would answer when the stream is over, which is never.
    if (!options.fetch && typeof Response === "function" && !("body" in Response.prototype)) throw new TypeError(NO_STREAMS);
    this.#options = options;
    this.#http = new Http(options);
    this.#now = options.now ?? (() => performance.now());
    const workload = options.workload ?? "summary";
    this.#path = `/api/v1/sessions/${encodeURIComponent(options.sessionId)}/${encodeURIComponent(workload)}`;
    this.#machine = createMachine(options.sessionId, workload);
    this.#status = initialStatus(options.sessionId, workload);
    this.#stopWatching = options.autoForeground === false ? () => {} : onReturn(() => this.foreground());
    this.#start();
    options.signal?.addEventListener("abort", this.close);
    if (options.signal?.aborted) this.close();
  }

  /** The newest status; the same object until it changes. */
  readonly getSnapshot = (): SummaryStatus => this.#status;

  /** Calls `listener` after each change of the snapshot, in order. Returns what ends that. */
  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  /** The states, from the present one on, only the newest of those not yet read. */
  [Symbol.asyncIterator](): AsyncIterator<SummaryStatus, undefined> {
    const iterator = new Latest<SummaryStatus>(
      (status) => status.outcome === "completed" && status.connection === "closed",
      () => this.#iterators.delete(iterator),
    );
    this.#iterators.add(iterator);
    iterator.push(this.#status);
    if (this.#closed) iterator.end();
    return iterator;
  }

  /** Milliseconds until a job that waits goes on; null when there is no such time. */
  readonly retryInMs = (): number | null => this.#left(this.#status.nextTryAt);

  /** Milliseconds until the server takes a retry by hand; 0 for now. */
  readonly retryAllowedInMs = (): number => this.#left(this.#status.retryFrom) ?? 0;

  /**
   * The user's "try again". Resolves to whether the server has accepted it; if not,
   * `problem` in the snapshot says why, with how long to wait. Never rejects.
   */
  readonly retry = async (): Promise<boolean> => {
    if (this.#closed || !this.#status.canRetry) return false;
    const epoch = this.#epoch;
    this.#problem = null;
    this.#forgetTimes();
    this.#apply({ kind: "user_retry" });
    const problem = await this.#postRetry();
    if (this.#closed || epoch !== this.#epoch) return false; // a submission has come in between
    // Another device was faster. The position may be that of the very event that
    // completed it, after which a server has nothing to send.
    const completed = problem instanceof TidingsError && problem.status === 409 && problem.code === "already_completed";
    if (problem === null || completed) {
      this.#fresh = completed;
      this.#apply({ kind: "retry_accepted" });
      return true;
    }
    if (problem instanceof TidingsError) {
      this.#problem = problem;
      if (problem.retryAfterMs > 0) this.#retryFrom = this.#now() + problem.retryAfterMs;
    }
    this.#apply({ kind: "retry_failed" });
    return false;
  };

  /** The user's "I'll see this later": the view goes, the stream and `outcome` go on. */
  readonly dismiss = (): void => this.#apply({ kind: "user_dismiss" });

  /** The page is visible again or the network is back: whatever stream there is cannot be trusted. */
  readonly foreground = (): void => this.#apply({ kind: "foreground" });

  /**
   * Starts a job, or finds the one that makes a document from the same input, and
   * follows it from its start. Rejects with a `TidingsError` that says why not: 409
   * `job_running` while one with other input lives, 503 when the server takes no more.
   */
  readonly submit = async (submission: Submission): Promise<Job> => {
    const { body } = await this.#http.call(
      {
        method: "POST",
        path: this.#path + (submission.replace ? "?replace=true" : ""),
        headers: { Accept: "application/json", "Idempotency-Key": submission.idempotencyKey ?? randomKey() },
        json: submissionBody(submission),
      },
      CALL_LIMIT,
    );
    if (!this.#closed) this.#start();
    return jobOf(body);
  };

  /** Fetches the current document; null before there is one. A newer job that runs or fails does not hide it. */
  readonly document = async (): Promise<Document | null> => {
    const request = { method: "GET", path: this.#path, headers: { Accept: "application/json" } };
    const { response, body } = await this.#http.call(request, CALL_LIMIT, [404]);
    return response.status === 404 ? null : documentOf(body);
  };

  /** Fetches what happened to the newest job; null before there is one. */
  readonly attempts = async (): Promise<Ledger | null> => {
    const request = { method: "GET", path: this.#path + "/attempts", headers: { Accept: "application/json" } };
    const { response, body } = await this.#http.call(request, CALL_LIMIT, [404]);
    return response.status === 404 ? null : ledgerOf(body);
  };

  /** Ends the live job. The stream then carries `error` with the reason `cancelled`. */
  readonly cancel = async (): Promise<void> => {
    await this.#http.call({ method: "DELETE", path: this.#path + "/job" }, TAP_LIMIT);
  };

  /** Drops the stream and ends all iterators. The snapshot stays readable. */
  readonly close = (): void => {
    if (this.#closed) return;
    this.#closed = true;
    this.#generation++;
    this.#stream?.close();
    clearTimeout(this.#timer);
    this.#stopWatching();
    this.#options.signal?.removeEventListener("abort", this.close);
    for (const iterator of [...this.#iterators]) iterator.end();
  };

  /** Makes a new machine: at the beginning, and for each submission. */
  #start(): void {
    this.#epoch++;
    this.#made = this.#now();
    this.#machine = createMachine(this.#options.sessionId, this.#machine.workload);
    this.#lateMs = 0;
    this.#fresh = true;
    this.#problem = null;
    this.#forgetTimes();
    this.#carryOut(["subscribe"]);
    this.#publish();
  }

  #apply(happening: Happening): void {
    if (this.#closed) return;
    const atMs = Math.floor(this.#now() - this.#made);
    const before = this.#machine;
    const { machine, effects } = reduce(before, { ...happening, atMs });
    this.#machine = machine;
    if (machine.resubscribeAt !== before.resubscribeAt) {
      // Clients that lost the server in one moment must not come back in one.
      const delay = happening.kind === "disconnect" && machine.resubscribeAt !== null ? machine.resubscribeAt - atMs : 0;
      this.#lateMs = Math.floor((Math.random() * delay) / 4);
    }
    if (machine.event && machine.event !== before.event) this.#timesOf(machine.event);
    this.#carryOut(effects);
    this.#publish();
  }

  #carryOut(effects: readonly Effect[]): void {
    for (const effect of effects) {
      if (effect === "subscribe") this.#subscribe();
      if (effect === "close") this.#stream?.close();
      // post_retry is done by retry itself, which waits for the answer.
    }
    clearTimeout(this.#timer);
    const tick = nextTick(this.#machine, this.#lateMs);
    const next = Math.min(tick === null ? Infinity : this.#made + tick, this.#checkAt ?? Infinity);
    if (next === Infinity) return;
    this.#timer = setTimeout(() => this.#tick(), Math.max(Math.ceil(next - this.#now()), 0));
  }

  /**
   * Time has passed. A countdown that has run out without any news may mean that the
   * connection is dead: what has happened is asked for on a new one.
   */
  #tick(): void {
    if (this.#checkAt === null || this.#now() < this.#checkAt) return this.#apply({ kind: "tick" });
    this.#checkAt = null;
    this.#checking = true;
    this.foreground();
  }

  #subscribe(): void {
    const generation = ++this.#generation;
    const current = (happening: Happening) => {
      if (generation === this.#generation) this.#apply(happening);
    };
    this.#stream?.close();
    const seed = this.#fresh ? "" : (this.#stream?.lastEventId ?? "");
    const cursor = this.#fresh ? "" : this.#machine.lastEventId;
    this.#fresh = false;
    const watchdogMs = this.#options.watchdogMs ?? WATCHDOG;
    this.#stream = new Stream(this.#http, { path: this.#path + "/status", cursor, seed, watchdogMs }, {
      onOpen: () => {
        if (generation !== this.#generation) return;
        this.#problem = null;
        this.#checking = false;
        this.#apply({ kind: "open" });
        this.#tell(() => this.#options.onOpen?.());
      },
      onMessage: (message) => current({ kind: "event", ...message }),
      onRetry: (ms) => current({ kind: "retry_hint", ms }),
      onEnd: (status, problem) => {
        if (generation !== this.#generation) return;
        if (isRefusal(status)) this.#problem = problem ?? null;
        // As a retry line would: the server says how far apart connections shall be.
        else if (problem && problem.retryAfterMs > 0) this.#apply({ kind: "retry_hint", ms: problem.retryAfterMs });
        this.#apply(status === undefined ? { kind: "disconnect" } : { kind: "disconnect", status });
        if (status !== 200 && status !== 204) this.#tell(() => this.#options.onError?.(problem ?? null));
        const next = this.#machine.resubscribeAt;
        if (next !== null) this.#tell(() => this.#options.onRetrying?.(Math.max(Math.round(this.#made + next + this.#lateMs - this.#now()), 0)));
      },
    });
  }

  /** Why the server does not try again; null when it does. */
  async #postRetry(): Promise<unknown> {
    const request = { method: "POST", path: this.#path + "/retry", headers: { Accept: "application/json" } };
    try {
      await this.#http.call(request, TAP_LIMIT);
      return null;
    } catch (problem) {
      return problem;
    }
  }

  /** Turns an event's times into times of the own clock, by what the server said was left. */
  #timesOf(event: StatusEvent): void {
    const left = (at: string | null): number | null => {
      const ms = Date.parse(at ?? "") - Date.parse(event.serverTime ?? "");
      return Number.isNaN(ms) ? null : Math.max(ms, 0);
    };
    const toNextTry = event.name === "retrying" ? (event.retryInMs ?? left(event.nextRetryAt)) : event.name === "queued" ? left(event.notBefore) : null;
    const toRetry = left(event.retryAvailableAt);
    this.#checking = false;
    this.#nextTryAt = toNextTry === null ? null : this.#now() + toNextTry;
    this.#checkAt = this.#nextTryAt === null ? null : this.#nextTryAt + CHECK_AFTER;
    this.#retryFrom = toRetry ? this.#now() + toRetry : null;
  }

  #forgetTimes(): void {
    this.#nextTryAt = this.#retryFrom = this.#checkAt = null;
    this.#checking = false;
  }

  #left(at: number | null): number | null {
    return at === null ? null : Math.max(at - this.#now(), 0);
  }

  #publish(): void {
    const state = stateOf(this.#machine);
    const event = this.#machine.event;
    const next: SummaryStatus = {
      ...state,
      messageKey: this.#checking && (state.phase === "loading" || state.phase === "retrying") ? "session_checking_connection" : state.messageKey,
      canRetry: state.canRetry && event?.canRetry !== false,
      event,
      // A refused stream: whatever it announced, nobody waits for it here.
      nextTryAt: state.phase === "error" ? null : this.#nextTryAt,
      retryFrom: this.#retryFrom,
      problem: this.#problem,
    };
    const keys = Object.keys(next) as (keyof SummaryStatus)[];
    if (keys.every((key) => next[key] === this.#status[key])) return;
    const isCompleted = next.outcome === "completed" && this.#status.outcome !== "completed";
    this.#status = next;
    for (const iterator of [...this.#iterators]) iterator.push(next);
    for (const listener of [...this.#listeners]) this.#tell(listener);
    if (isCompleted) this.#tell(() => this.#options.onComplete?.(next));
  }

  #tell(listener: () => void): void {
    try {
      listener();
    } catch (error) {
      // The app's mistake is the app's to see, and must not end the stream.
      setTimeout(() => { throw error; });
    }
  }
}
