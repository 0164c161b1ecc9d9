import { isTrue, knownEvents, readEvent, readObject, wholeNumber, type StatusEvent } from "./event.js";

/** What the screen shows. */
export type Phase = "loading" | "retrying" | "error" | "done" | "dismissed";

/**
 * Whether a stream is up. `reconnecting`: wanted but not up, under way or scheduled.
 * `closed`: no stream is wanted now.
 */
export type Connection = "open" | "reconnecting" | "closed";

/** What is known of the job, whatever the screen shows. */
export type Outcome = "pending" | "completed" | "failed";

/** What a view draws. All of it follows from what the machine has seen. */
export interface State {
  readonly phase: Phase;
  readonly spinner: boolean;
  /** The key of the text to show, see `Texts`. */
  readonly messageKey: string | null;
  readonly retryAttempt: number | null;
  readonly canRetry: boolean;
  readonly canDismiss: boolean;
  readonly connection: Connection;
  /** When a scheduled subscribe is due, in milliseconds since the machine was made. */
  readonly resubscribeAtMs: number | null;
  readonly lastEventId: string;
  readonly outcome: Outcome;
}

/**
 * What the machine wants done. `subscribe`: drop the stream, if any, and open a new
 * one after `lastEventId`. `close`: drop it. `post_retry`: ask the server for another
 * try and report what it said.
 */
export type Effect = "subscribe" | "close" | "post_retry";

/** Something that happened: on the stream, to the clock, or by the user. */
export type Input = {
  /** Milliseconds since the machine was made, from a clock that does not go back. */
  readonly atMs: number;
} & (
  | { readonly kind: "open" | "tick" | "foreground" | "user_dismiss" | "user_retry" | "retry_accepted" | "retry_failed" }
  /** Without an `id` the position stays as it is. */
  | { readonly kind: "event"; readonly event: string; readonly data: string; readonly id?: string }
  | { readonly kind: "retry_hint"; readonly ms: number }
  /** `status` is the HTTP status of the answer, absent if there was none. */
  | { readonly kind: "disconnect"; readonly status?: number }
);

/** An input before it is known when it happened. */
export type Happening = Input extends infer I ? (I extends Input ? Omit<I, "atMs"> : never) : never;

const HARD_TIMEOUT = 30_000;
const IDLE_DELAY = 2_000;
const BASE_DELAY = 1_000;
const MIN_HINT = 500;
const MAX_DELAY = 30_000;

/** The memory of the state machine: a plain value, never changed, only replaced. */
export interface Machine {
  readonly sessionId: string;
  readonly workload: string;
  readonly now: number;
  readonly deadline: number;
  readonly timedOut: boolean;
  readonly phase: Phase;
  readonly attempt: number | null;
  readonly connection: Connection;
  readonly resubscribeAt: number | null;
  readonly lastEventId: string;
  readonly outcome: Outcome;
  readonly failures: number;
  readonly base: number;
  readonly lastSeq: number | null;
  readonly awaitingRetry: boolean;
  /** The last accepted event with a name of the contract. */
  readonly event: StatusEvent | null;
}

type Memory = { -readonly [K in keyof Machine]: Machine[K] };

/** Makes the machine of a session's workload, at time 0. Its first effect is `subscribe`. */
export function createMachine(sessionId: string, workload = "summary"): Machine {
  return {
    sessionId,
    workload,
    now: 0,
    deadline: HARD_TIMEOUT,
    timedOut: false,
    phase: "loading",
    attempt: null,
    connection: "reconnecting",
    resubscribeAt: null,
    lastEventId: "",
    outcome: "pending",
    failures: 0,
    base: BASE_DELAY,
    lastSeq: null,
    awaitingRetry: false,
    event: null,
  };
}

/** What to show. */
export function stateOf(m: Machine): State {
  const waiting = isWaiting(m);
  const messageKey =
    m.phase === "loading" ? `session_${m.workload}_${m.timedOut ? "taking_longer" : "compiling"}`
    : m.phase === "retrying" ? "ai_service_busy_retrying"
    : m.phase === "error" ? `ai_workload_${m.workload}_error`
    : null;
  return {
    phase: m.phase,
    spinner: waiting && !m.timedOut,
    messageKey,
    retryAttempt: m.phase === "retrying" ? m.attempt : null,
    canRetry: m.phase === "error",
    canDismiss: waiting || m.phase === "error",
    connection: m.connection,
    resubscribeAtMs: m.resubscribeAt,
    lastEventId: m.lastEventId,
    outcome: m.outcome,
  };
}

/**
 * When the machine next wants a tick, in milliseconds since it was made, or null. A
 * scheduled subscribe may come late by `lateMs`. A late tick does no harm to what is
 * shown.
 */
export function nextTick(m: Machine, lateMs = 0): number | null {
  const subscribe = m.resubscribeAt === null ? Infinity : m.resubscribeAt + lateMs;
  const next = Math.min(subscribe, isWaiting(m) && !m.timedOut ? m.deadline : Infinity);
  return next === Infinity ? null : next;
}

/** Takes one input: the machine afterwards, and what is to be done, in order. */
export function reduce(machine: Machine, input: Input): { machine: Machine; effects: Effect[] } {
  const m: Memory = { ...machine };
  const effects = passTime(m, input.atMs);
  effects.push(...apply(m, input));
  // Coming to the foreground subscribes once, also when time has just done so.
  return { machine: m, effects: effects.filter((e, i) => e !== "subscribe" || effects.indexOf(e) === i) };
}

function isWaiting(m: Machine): boolean {
  return m.phase === "loading" || m.phase === "retrying";
}

/** Applies what the time alone has changed, before the input itself is looked at. */
function passTime(m: Memory, atMs: number): Effect[] {
  m.now = Math.max(m.now, atMs);
  if (isWaiting(m) && m.now >= m.deadline) m.timedOut = true;
  if (m.resubscribeAt === null || m.now < m.resubscribeAt) return [];
  m.resubscribeAt = null;
  m.connection = "reconnecting";
  return ["subscribe"];
}

function apply(m: Memory, input: Input): Effect[] {
  switch (input.kind) {
    case "tick":
      return [];
    case "open":
      if (m.connection === "closed") return [];
      m.connection = "open";
      m.resubscribeAt = null;
      return [];
    case "retry_hint":
      m.base = Math.min(Math.max(input.ms, MIN_HINT), MAX_DELAY);
      return [];
    case "disconnect":
      disconnect(m, input.status);
      return [];
    case "foreground":
      if (m.connection === "closed") return [];
      m.connection = "reconnecting";
      m.resubscribeAt = null;
      m.failures = 0;
      return ["subscribe"];
    case "user_dismiss":
      if (isWaiting(m) || m.phase === "error") m.phase = "dismissed";
      return [];
    case "user_retry":
      if (m.phase !== "error") return [];
      m.phase = "loading";
      m.outcome = "pending";
      m.timedOut = false;
      m.deadline = m.now + HARD_TIMEOUT;
      m.attempt = null;
      m.failures = 0;
      m.awaitingRetry = true;
      return ["post_retry"];
    case "retry_accepted":
      if (!m.awaitingRetry) return [];
      m.awaitingRetry = false;
      m.connection = "reconnecting";
      m.resubscribeAt = null;
      return ["subscribe"];
    case "retry_failed":
      if (!m.awaitingRetry) return [];
      m.awaitingRetry = false;
      m.outcome = "failed";
      show(m, "error");
      return [];
    case "event":
      return takeEvent(m, input.event, input.data, input.id);
  }
}

/** Tells whether a status means that asking again would be in vain. */
export function isRefusal(status: number | undefined): boolean {
  if (status === undefined || status === 408 || status === 425 || status === 429) return false;
  return status === 204 || (status >= 400 && status <= 499);
}

function disconnect(m: Memory, status: number | undefined): void {
  if (m.connection === "closed") return;
  if (isRefusal(status)) {
    m.connection = "closed";
    m.resubscribeAt = null;
    show(m, "error");
    return;
  }
  m.connection = "reconnecting";
  if (m.resubscribeAt !== null) return; // after idle: the schedule stands, and this is no failure
  m.resubscribeAt = m.now + Math.min(m.base * 2 ** m.failures, MAX_DELAY);
  m.failures++;
}

/** Changes the phase unless the user has left: a dismissed view stays so. */
function show(m: Memory, phase: Phase, attempt: number | null = m.attempt): void {
  if (m.phase === "dismissed") return;
  m.phase = phase;
  m.attempt = attempt;
}

/** The type alone decides what happens, data only refines it: an old app survives a newer server. */
function takeEvent(m: Memory, event: string, text: string, id: string | undefined): Effect[] {
  if (m.outcome === "completed") return [];
  // After an error the stream is on its way out. Only the document that came after all is news.
  if (m.connection === "closed" && !(m.outcome === "failed" && event === "completed")) return [];
  const data = readObject(text);
  const session = data["session_id"];
  if (typeof session === "string" && session !== m.sessionId) return [];
  if (isTrue(data, "reset")) m.lastSeq = null;
  const seq = wholeNumber(data, "seq");
  if (seq !== null) {
    if (m.lastSeq !== null && seq <= m.lastSeq) return [];
    m.lastSeq = seq;
  }
  if (id !== undefined) m.lastEventId = id;
  m.failures = 0;
  if (m.connection !== "closed") m.connection = "open";
  if (knownEvents.has(event)) m.event = readEvent(event, data);

  switch (event) {
    case "queued":
    case "processing":
      m.resubscribeAt = null;
      show(m, "loading", null);
      return [];
    case "retrying":
      m.resubscribeAt = null;
      show(m, "retrying", wholeNumber(data, "attempt", 1, 1000) ?? (m.phase === "retrying" ? m.attempt : null));
      return [];
    case "completed":
      return finish(m, "completed", "done");
    case "error":
      return finish(m, "failed", "error");
    case "idle":
      show(m, "loading", null);
      m.resubscribeAt = isTrue(data, "stays_open") && m.connection !== "closed" ? null : m.now + IDLE_DELAY;
      return [];
    default:
      return [];
  }
}

function finish(m: Memory, outcome: Outcome, phase: Phase): Effect[] {
  m.resubscribeAt = null;
  m.outcome = outcome;
  show(m, phase);
  if (m.connection === "closed") return [];
  m.connection = "closed";
  return ["close"];
}
