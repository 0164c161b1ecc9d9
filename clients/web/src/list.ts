import { Connection, guarded } from "./connection.js";
import { isTrue, knownEvents, readObject, text, wholeNumber } from "./event.js";
import { Http, type HttpOptions } from "./http.js";
import { Latest } from "./latest.js";
import { isRefusal, type Effect, type Happening } from "./reducer.js";
import { requireStreams } from "./stream.js";
import type { FollowOptions } from "./subscription.js";
import { sameStatus, View, type SummaryStatus } from "./view.js";
import { onReturn } from "./visibility.js";

/** How to follow a list of sessions. */
export interface WatchAllOptions extends HttpOptions, FollowOptions {
  /** The workload of sessions that are written without one; `summary` by default. */
  readonly workload?: string | undefined;
}

/** The status of each session, by the name it was given with. */
export type Statuses = ReadonlyMap<string, SummaryStatus>;

/**
 * Follows up to 100 sessions of one owner on one stream, each written as `id` or as
 * `id/workload`, from now until `close`: for pages that list them. A session without a job
 * has the event `idle`. For other sessions open another list.
 */
export function watchAll(options: WatchAllOptions, sessions: readonly string[]): StatusList {
  return new StatusList(options, sessions);
}

/** Many sessions on one stream. Iterating gives the newest statuses each time, until it is closed. */
export class StatusList implements AsyncIterable<Statuses> {
  readonly #options: WatchAllOptions;
  readonly #items: Item[];
  readonly #connection: Connection;
  readonly #view: View; // the connection's own: it takes each event as one without a meaning
  readonly #listeners = new Set<() => void>();
  readonly #iterators = new Set<Latest<Statuses>>();
  readonly #stopWatching: () => void;
  #statuses: Statuses;
  #closed = false;

  constructor(options: WatchAllOptions, sessions: readonly string[]) {
    requireStreams(options);
    this.#options = options;
    const now = options.now ?? (() => performance.now());
    this.#items = sessions.map((name) => new Item(name, options.workload ?? "summary", now));
    this.#view = new View("", "summary", now);
    this.#statuses = new Map(this.#items.map((item) => [item.name, item.view.status(null)]));
    const query = new URLSearchParams(this.#items.map((item) => ["session", `${item.sessionId}/${item.workload}`]));
    this.#connection = new Connection(new Http(options), `/api/v1/status/stream?${query}`, options, now, {
      view: this.#view,
      take: (happening) => this.#take(happening),
      checks: () => this.#items.filter((item) => item.view.checks()).length > 0,
      wakeAt: (lateMs) => Math.min(this.#view.wakeAt(lateMs), ...this.#items.map((item) => item.view.wakeAt())),
      publish: () => this.#publish(),
    });
    this.#stopWatching = options.autoForeground === false ? () => {} : onReturn(this.foreground);
    this.#connection.start();
    options.signal?.addEventListener("abort", this.close);
    if (options.signal?.aborted) this.close();
  }

  /** The newest statuses; the same object until one changes. */
  readonly getSnapshot = (): Statuses => this.#statuses;

  /** Calls `listener` after each change of the snapshot, in order. Returns what ends that. */
  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  /** The statuses, from the present ones on, only the newest of those not yet read. */
  [Symbol.asyncIterator](): AsyncIterator<Statuses, undefined> {
    const iterator = new Latest<Statuses>(() => false, () => this.#iterators.delete(iterator));
    this.#iterators.add(iterator);
    iterator.push(this.#statuses);
    if (this.#closed) iterator.end();
    return iterator;
  }

  /** The page is visible again or the network is back: whatever stream there is cannot be trusted. */
  readonly foreground = (): void => this.#connection.apply({ kind: "foreground" });

  /** Drops the stream and ends all iterators. The snapshot stays readable. */
  readonly close = (): void => {
    if (this.#closed) return;
    this.#closed = true;
    this.#connection.close();
    this.#stopWatching();
    this.#options.signal?.removeEventListener("abort", this.close);
    for (const iterator of [...this.#iterators]) iterator.end();
  };

  /** Gives each session what concerns it; the rest concerns the connection. */
  #take(happening: Happening): Effect[] {
    switch (happening.kind) {
      case "event": {
        const o = readObject(happening.data);
        const item = this.#items.find((i) => i.sessionId === text(o, "session_id") && i.workload === text(o, "workload"));
        if (knownEvents.has(happening.event)) item?.take(happening, o);
        return this.#view.take({ ...happening, event: "message", data: "" });
      }
      case "disconnect":
        if (isRefusal(happening.status)) for (const item of this.#items) item.view.take(happening);
        break;
      case "open":
        for (const item of this.#items) item.view.checking = false;
        break;
      case "tick":
        for (const item of this.#items) item.view.take(happening);
        break;
    }
    return this.#view.take(happening);
  }

  /** The connection is one for all. */
  #publish(): void {
    const { connection, resubscribeAtMs, lastEventId, problem } = this.#view.status(this.#connection.problem);
    const next = new Map(this.#items.map((item) => {
      const status = { ...item.view.status(problem), connection, resubscribeAtMs, lastEventId };
      const before = this.#statuses.get(item.name);
      return [item.name, before && sameStatus(before, status) ? before : status];
    }));
    if ([...next].every(([name, status]) => this.#statuses.get(name) === status)) return;
    this.#statuses = next;
    for (const iterator of [...this.#iterators]) iterator.push(next);
    for (const listener of [...this.#listeners]) guarded(listener);
  }
}

/** One session of a list. */
class Item {
  readonly name: string;
  readonly sessionId: string;
  readonly workload: string;
  readonly #now: () => number;
  view: View;
  #lastSeq = -1;
  #jobId: string | null = null;

  constructor(name: string, workload: string, now: () => number) {
    const [sessionId, own] = name.split("/", 2);
    this.name = name;
    this.sessionId = sessionId!;
    this.workload = own ?? workload;
    this.#now = now;
    this.view = new View(this.sessionId, this.workload, now);
  }

  /** Takes an event. After a return some come again. A new job has a machine of its own: the one before may have come to its end. */
  take(happening: Happening, o: Readonly<Record<string, unknown>>): void {
    if (isTrue(o, "reset")) this.#lastSeq = -1;
    const seq = wholeNumber(o, "seq") ?? -1;
    if (seq >= 0 && seq <= this.#lastSeq) return;
    const jobId = text(o, "job_id");
    if (jobId !== this.#jobId) this.view = new View(this.sessionId, this.workload, this.#now);
    this.#jobId = jobId;
    this.#lastSeq = Math.max(seq, this.#lastSeq);
    this.view.take(happening);
  }
}
