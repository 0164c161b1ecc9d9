import { Connection, guarded, type ConnectionHooks, type Follower } from "./connection.js";
import { documentOf, pathOf, submit, type Document, type Job, type Submission } from "./documents.js";
import { Http, TidingsError, type HttpOptions } from "./http.js";
import { Latest } from "./latest.js";
import { ledgerOf, type Ledger } from "./ledger.js";
import type { Effect, Happening } from "./reducer.js";
import { requireStreams } from "./stream.js";
import { sameStatus, View, type SummaryStatus } from "./view.js";
import { onReturn } from "./visibility.js";

const TAP_LIMIT = 10_000; // somebody waits with a finger on the screen
const CALL_LIMIT = 30_000;

/** How to follow, be it one session or a list of them. */
export interface FollowOptions extends ConnectionHooks {
  /** Ends it when it aborts. */
  readonly signal?: AbortSignal | undefined;
  /** False leaves it to the app to call `foreground` when its page is visible again. */
  readonly autoForeground?: boolean | undefined;
  /** A monotonic clock in milliseconds; `performance.now` by default. */
  readonly now?: (() => number) | undefined;
}

/** What to follow, and how. */
export interface SubscribeOptions extends HttpOptions, FollowOptions {
  /** The conversation in the app, 1 to 128 of `A-Z a-z 0-9 . _ : -`. */
  readonly sessionId: string;
  /** `summary` (the default), `guidance` or `classification`. */
  readonly workload?: string | undefined;
  /** The job is completed. */
  readonly onComplete?: ((status: SummaryStatus) => void) | undefined;
}

/** The status before anything is known. */
export function initialStatus(sessionId: string, workload = "summary"): SummaryStatus {
  return new View(sessionId, workload, () => 0).status(null);
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
  readonly #workload: string;
  readonly #listeners = new Set<() => void>();
  readonly #iterators = new Set<Latest<SummaryStatus>>();
  readonly #stopWatching: () => void;
  readonly #connection: Connection;
  #view: View;
  #epoch = 0; // counts views
  #closed = false;
  #status: SummaryStatus;

  constructor(options: SubscribeOptions) {
    // Without types this is easily forgotten, and there is a session "undefined" to be followed.
    if (typeof options?.sessionId !== "string") throw new TypeError("sessionId is missing; give the id of the conversation to follow");
    requireStreams(options);
    this.#options = options;
    this.#http = new Http(options);
    this.#now = options.now ?? (() => performance.now());
    this.#workload = options.workload ?? "summary";
    this.#path = pathOf(options.sessionId, this.#workload);
    this.#view = new View(options.sessionId, this.#workload, this.#now);
    this.#status = this.#view.status(null);
    this.#connection = new Connection(this.#http, this.#path + "/status", options, this.#now, this.#asFollower());
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
    this.#connection.problem = null;
    this.#connection.apply({ kind: "user_retry" });
    const problem = await this.#postRetry();
    if (this.#closed || epoch !== this.#epoch) return false; // a submission has come in between
    // Another device was faster. The position may be that of the very event that
    // completed it, after which a server has nothing to send.
    const completed = problem instanceof TidingsError && problem.status === 409 && problem.code === "already_completed";
    if (problem === null || completed) {
      this.#connection.fresh = completed;
      this.#connection.apply({ kind: "retry_accepted" });
      return true;
    }
    if (problem instanceof TidingsError) {
      this.#connection.problem = problem;
      if (problem.retryAfterMs > 0) this.#view.retryFrom = this.#now() + problem.retryAfterMs;
    }
    this.#connection.apply({ kind: "retry_failed" });
    return false;
  };

  /** The user's "I'll see this later": the view goes, the stream and `outcome` go on. */
  readonly dismiss = (): void => this.#connection.apply({ kind: "user_dismiss" });

  /** The page is visible again or the network is back: whatever stream there is cannot be trusted. */
  readonly foreground = (): void => this.#connection.apply({ kind: "foreground" });

  /**
   * Starts a job, or finds the one that makes a document from the same input, and
   * follows it from its start. Rejects with a `TidingsError` that says why not: 409
   * `job_running` while one with other input lives, 503 when the server takes no more.
   */
  readonly submit = async (submission: Submission): Promise<Job> => {
    const job = await submit(this.#options, submission);
    if (!this.#closed) this.#start();
    return job;
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
    this.#connection.close();
    this.#stopWatching();
    this.#options.signal?.removeEventListener("abort", this.close);
    for (const iterator of [...this.#iterators]) iterator.end();
  };

  /** Starts anew: at the beginning, and for each submission. */
  #start(): void {
    this.#epoch++;
    this.#view = new View(this.#options.sessionId, this.#workload, this.#now);
    this.#connection.start();
  }

  #asFollower(): Follower {
    const view = () => this.#view;
    return {
      get view() { return view(); },
      take: (happening: Happening): Effect[] => this.#view.take(happening),
      checks: () => this.#view.checks(),
      wakeAt: (lateMs) => this.#view.wakeAt(lateMs),
      publish: () => this.#publish(),
    };
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

  #left(at: number | null): number | null {
    return at === null ? null : Math.max(at - this.#now(), 0);
  }

  #publish(): void {
    const next = this.#view.status(this.#connection.problem);
    if (sameStatus(next, this.#status)) return;
    const isCompleted = next.outcome === "completed" && this.#status.outcome !== "completed";
    this.#status = next;
    for (const iterator of [...this.#iterators]) iterator.push(next);
    for (const listener of [...this.#listeners]) guarded(listener);
    if (isCompleted) guarded(() => this.#options.onComplete?.(next));
  }
}
