/** A JSON object whose fields are read one by one, each as if absent when of another type. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** The names of the contract. Others move the position in the stream and nothing else. */
export const knownEvents: ReadonlySet<string> = new Set(["queued", "processing", "retrying", "completed", "error", "idle"]);

/**
 * What the last accepted event said. The server may leave out any of it: a field it
 * did not send, or sent with another type, is null. Times are the server's;
 * `SummaryStatus` has them on the client's own clock.
 */
export interface StatusEvent {
  /** queued, processing, retrying, completed, error or idle. */
  readonly name: string;
  readonly sessionId: string | null;
  readonly workload: string | null;
  readonly jobId: string | null;
  readonly seq: number | null;
  /** The attempt that runs or has just failed, from 1; 0 while the first one waits. */
  readonly attempt: number | null;
  readonly maxAttempts: number | null;
  readonly at: string | null;
  /** When the server sent this copy. */
  readonly serverTime: string | null;
  readonly deadlineAt: string | null;
  /** Why it waits, or why it ended. */
  readonly reason: string | null;
  /** queued: when it waits for more than its turn. */
  readonly notBefore: string | null;
  readonly call: number | null;
  readonly maxCalls: number | null;
  /** retrying: `queue` or `call`. */
  readonly layer: string | null;
  readonly nextAttempt: number | null;
  readonly nextCall: number | null;
  readonly nextRetryAt: string | null;
  /** What was left until then when the server sent this. */
  readonly retryInMs: number | null;
  /** Localized: the wait, or why it ended. */
  readonly message: string | null;
  readonly userMessageKey: string | null;
  /** Localized: what to tell a user who waits. */
  readonly userMessage: string | null;
  /** completed, error: how it ended. */
  readonly outcome: string | null;
  /** completed: the document's version. */
  readonly version: number | null;
  readonly documentUrl: string | null;
  readonly messageKey: string | null;
  /** error: whether the server takes a retry by hand. */
  readonly canRetry: boolean | null;
  /** error: when it takes one again. */
  readonly retryAvailableAt: string | null;
  /** The server could not resume after the last position. */
  readonly reset: boolean;
  /** Everything the event carried, also what this version has no name for. */
  readonly fields: JsonObject;
}

/** Reads text as one JSON object; anything else is an empty one. */
export function readObject(text: string): JsonObject {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as JsonObject;
  } catch {
    // Never an error: the event's type alone decides.
  }
  return {};
}

/** A whole number from `lo` to `hi`, or null. */
export function wholeNumber(o: JsonObject, key: string, lo = 0, hi = Number.MAX_SAFE_INTEGER): number | null {
  const value = o[key];
  return typeof value === "number" && Number.isSafeInteger(value) && value >= lo && value <= hi ? value : null;
}

/** Tells whether a field has the value true; nothing else counts. */
export function isTrue(o: JsonObject, key: string): boolean {
  return o[key] === true;
}

/** A string, or null. */
export function text(o: JsonObject, key: string): string | null {
  const value = o[key];
  return typeof value === "string" ? value : null;
}

/** Reads the typed fields of an event. */
export function readEvent(name: string, o: JsonObject): StatusEvent {
  const canRetry = o["can_retry"];
  return {
    name,
    sessionId: text(o, "session_id"),
    workload: text(o, "workload"),
    jobId: text(o, "job_id"),
    seq: wholeNumber(o, "seq"),
    attempt: wholeNumber(o, "attempt"),
    maxAttempts: wholeNumber(o, "max_attempts"),
    at: text(o, "at"),
    serverTime: text(o, "server_time"),
    deadlineAt: text(o, "deadline_at"),
    reason: text(o, "reason"),
    notBefore: text(o, "not_before"),
    call: wholeNumber(o, "call"),
    maxCalls: wholeNumber(o, "max_calls"),
    layer: text(o, "layer"),
    nextAttempt: wholeNumber(o, "next_attempt"),
    nextCall: wholeNumber(o, "next_call"),
    nextRetryAt: text(o, "next_retry_at"),
    retryInMs: wholeNumber(o, "retry_in_ms"),
    message: text(o, "message"),
    userMessageKey: text(o, "user_message_key"),
    userMessage: text(o, "user_message"),
    outcome: text(o, "outcome"),
    version: wholeNumber(o, "version"),
    documentUrl: text(o, "document_url"),
    messageKey: text(o, "message_key"),
    canRetry: typeof canRetry === "boolean" ? canRetry : null,
    retryAvailableAt: text(o, "retry_available_at"),
    reset: isTrue(o, "reset"),
    fields: o,
  };
}
