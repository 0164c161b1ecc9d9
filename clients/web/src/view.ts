import type { StatusEvent } from "./event.js";
import type { TidingsError } from "./http.js";
import { createMachine, nextTick, reduce, stateOf, type Effect, type Happening, type Machine, type State } from "./reducer.js";

const CHECK_AFTER = 3_000; // past the end of a countdown

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

/** What is shown of one session: its machine, and the machine's times on the client's clock. */
export class View {
  readonly #now: () => number;
  readonly #made: number; // time 0 of the machine
  machine: Machine;
  #nextTryAt: number | null = null;
  #checkAt: number | null = null; // the end of the countdown and a little
  retryFrom: number | null = null;
  /** The countdown has run out without news, and a new stream has not opened yet. */
  checking = false;

  constructor(sessionId: string, workload: string, now: () => number) {
    this.#now = now;
    this.#made = now();
    this.machine = createMachine(sessionId, workload);
  }

  /** Gives an input to the machine and takes the times of a new event. */
  take(happening: Happening): Effect[] {
    if (happening.kind === "user_retry") this.#forgetTimes();
    const before = this.machine;
    const { machine, effects } = reduce(before, { ...happening, atMs: Math.floor(this.#now() - this.#made) });
    this.machine = machine;
    if (machine.event && machine.event !== before.event) this.#readTimes(machine.event);
    return effects;
  }

  /**
   * Whether a countdown has run out without any news. That may mean that the connection is
   * dead. It is true once for each countdown.
   */
  checks(): boolean {
    if (this.#checkAt === null || this.#now() < this.#checkAt) return false;
    this.#checkAt = null;
    this.checking = true;
    return true;
  }

  /** When the view changes with time alone; Infinity for never. A scheduled subscribe may come late by `lateMs`. */
  wakeAt(lateMs = 0): number {
    const tick = nextTick(this.machine, lateMs);
    return Math.min(tick === null ? Infinity : this.#made + tick, this.#checkAt ?? Infinity);
  }

  /** How long until the scheduled subscribe; null for none. */
  pauseMs(): number | null {
    const at = this.machine.resubscribeAt;
    return at === null ? null : Math.max(at - Math.floor(this.#now() - this.#made), 0);
  }

  /** What to show. */
  status(problem: TidingsError | null): SummaryStatus {
    const state = stateOf(this.machine);
    const { event } = this.machine;
    return {
      ...state,
      messageKey: this.checking && (state.phase === "loading" || state.phase === "retrying") ? "session_checking_connection" : state.messageKey,
      canRetry: state.canRetry && event?.canRetry !== false,
      event,
      // A refused stream: whatever it announced, nobody waits for it here.
      nextTryAt: state.phase === "error" ? null : this.#nextTryAt,
      retryFrom: this.retryFrom,
      problem,
    };
  }

  #forgetTimes(): void {
    this.#nextTryAt = this.retryFrom = this.#checkAt = null;
    this.checking = false;
  }

  /** Turns an event's times into times of the own clock, by what the server said was left. */
  #readTimes(event: StatusEvent): void {
    this.#forgetTimes();
    const left = (at: string | null): number | null => {
      const ms = Date.parse(at ?? "") - Date.parse(event.serverTime ?? "");
      return Number.isNaN(ms) ? null : Math.max(ms, 0);
    };
    const toNextTry = event.name === "retrying" ? (event.retryInMs ?? left(event.nextRetryAt)) : event.name === "queued" ? left(event.notBefore) : null;
    const toRetry = event.name === "error" ? left(event.retryAvailableAt) : null;
    if (toNextTry !== null) {
      this.#nextTryAt = this.#now() + toNextTry;
      this.#checkAt = this.#nextTryAt + CHECK_AFTER;
    }
    if (toRetry) this.retryFrom = this.#now() + toRetry;
  }
}

/** Tells whether two statuses say the same. */
export function sameStatus(a: SummaryStatus, b: SummaryStatus): boolean {
  return (Object.keys(a) as (keyof SummaryStatus)[]).every((key) => a[key] === b[key]);
}
