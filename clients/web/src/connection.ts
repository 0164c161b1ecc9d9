import type { Http, TidingsError } from "./http.js";
import { isRefusal, type Effect, type Happening } from "./reducer.js";
import { Stream } from "./stream.js";
import type { View } from "./view.js";

const WATCHDOG = 45_000; // three heartbeats of 15 s

/** What the app may hear of the connection. */
export interface ConnectionHooks {
  /** A stream is open. */
  readonly onOpen?: (() => void) | undefined;
  /** A stream was lost, or refused for a reason: null without an answer. */
  readonly onError?: ((problem: TidingsError | null) => void) | undefined;
  /** The next stream is opened in so many milliseconds. */
  readonly onRetrying?: ((delayMs: number) => void) | undefined;
  /** Replaces the 45 seconds after which a silent stream counts as dead. */
  readonly watchdogMs?: number | undefined;
}

/** What a connection works for: one session, or a list of them. */
export interface Follower {
  /** The view whose machine says when there is a stream. */
  readonly view: View;
  /** Takes what has happened, and returns what that machine wants. */
  take(happening: Happening): Effect[];
  /** Whether a countdown has run out without news. */
  checks(): boolean;
  /** When something changes with time alone. */
  wakeAt(lateMs: number): number;
  /** Something may have changed. */
  publish(): void;
}

/** Joins a machine to the network: streams and their generations, the timer, the pauses. */
export class Connection {
  readonly #http: Http;
  readonly #path: string;
  readonly #options: ConnectionHooks;
  readonly #now: () => number;
  readonly #follower: Follower;
  #lateMs = 0; // random extra on the scheduled subscribe
  #timer: ReturnType<typeof setTimeout> | undefined;
  #generation = 0; // of the stream; what an older one says is dropped
  #stream: Stream | null = null;
  #closed = false;
  /** The next subscribe goes without a position. */
  fresh = false;
  /** Why the server refused the stream, or whatever else it was asked for. */
  problem: TidingsError | null = null;

  constructor(http: Http, path: string, options: ConnectionHooks, now: () => number, follower: Follower) {
    this.#http = http;
    this.#path = path;
    this.#options = options;
    this.#now = now;
    this.#follower = follower;
  }

  /** Opens a stream from the beginning. */
  start(): void {
    this.#lateMs = 0;
    this.fresh = true;
    this.problem = null;
    this.#carryOut(["subscribe"]);
    this.#follower.publish();
  }

  /** Tells what has happened, and does what follows from it. */
  apply(happening: Happening): void {
    if (this.#closed) return;
    const before = this.#follower.view.machine.resubscribeAt;
    const effects = this.#follower.take(happening);
    if (this.#follower.view.machine.resubscribeAt !== before) {
      // Clients that lost the server in one moment must not come back in one.
      const pause = happening.kind === "disconnect" ? this.#follower.view.pauseMs() : null;
      this.#lateMs = Math.floor((Math.random() * (pause ?? 0)) / 4);
    }
    this.#carryOut(effects);
    this.#follower.publish();
  }

  /** Drops the stream; nothing is heard after that. */
  close(): void {
    this.#closed = true;
    this.#generation++;
    this.#stream?.close();
    clearTimeout(this.#timer);
  }

  #carryOut(effects: readonly Effect[]): void {
    for (const effect of effects) {
      if (effect === "subscribe") this.#subscribe();
      if (effect === "close") this.#stream?.close();
      // post_retry is done by retry itself, which waits for the answer.
    }
    clearTimeout(this.#timer);
    const next = this.#follower.wakeAt(this.#lateMs);
    if (next !== Infinity) this.#timer = setTimeout(() => this.#tick(), Math.max(Math.ceil(next - this.#now()), 0));
  }

  /** Time has passed. A countdown without news is asked about on a new connection. */
  #tick(): void {
    this.apply({ kind: this.#follower.checks() ? "foreground" : "tick" });
  }

  #subscribe(): void {
    const generation = ++this.#generation;
    const current = (happening: Happening) => {
      if (generation === this.#generation) this.apply(happening);
    };
    this.#stream?.close();
    const seed = this.fresh ? "" : (this.#stream?.lastEventId ?? "");
    const cursor = this.fresh ? "" : this.#follower.view.machine.lastEventId;
    this.fresh = false;
    const watchdogMs = this.#options.watchdogMs ?? WATCHDOG;
    this.#stream = new Stream(this.#http, { path: this.#path, cursor, seed, watchdogMs }, {
      onOpen: () => {
        if (generation !== this.#generation) return;
        this.problem = null;
        this.#follower.view.checking = false;
        this.apply({ kind: "open" });
        guarded(() => this.#options.onOpen?.());
      },
      onMessage: (message) => current({ kind: "event", ...message }),
      onRetry: (ms) => current({ kind: "retry_hint", ms }),
      onEnd: (status, problem) => {
        if (generation !== this.#generation) return;
        if (isRefusal(status)) this.problem = problem ?? null;
        // As a retry line would: the server says how far apart connections shall be.
        else if (problem && problem.retryAfterMs > 0) this.apply({ kind: "retry_hint", ms: problem.retryAfterMs });
        this.apply(status === undefined ? { kind: "disconnect" } : { kind: "disconnect", status });
        if (status !== 200 && status !== 204) guarded(() => this.#options.onError?.(problem ?? null));
        const pause = this.#follower.view.pauseMs();
        if (pause !== null) guarded(() => this.#options.onRetrying?.(Math.round(pause + this.#lateMs)));
      },
    });
  }
}

/** Calls a function of the app's. Its mistake is the app's to see, and must not end the stream. */
export function guarded(call: () => void): void {
  try {
    call();
  } catch (error) {
    setTimeout(() => { throw error; });
  }
}
