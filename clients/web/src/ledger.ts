import { readEvent, readObject, text, wholeNumber, type JsonObject, type StatusEvent } from "./event.js";
import { Http, type HttpOptions } from "./http.js";

const LIMIT = 30_000;

/** What happened to a job: its attempts, and the calls to the model in each. A field the server does not know is null. */
export interface Ledger {
  readonly jobId: string | null;
  readonly attempts: readonly Attempt[];
  readonly calls: readonly Call[];
}

/** One run of the job by a worker, from 1. */
export interface Attempt {
  readonly attempt: number | null;
  readonly startedAt: string | null;
  /** null while it runs. */
  readonly endedAt: string | null;
  readonly durationMs: number | null;
  /** What it led to. */
  readonly status: string | null;
  readonly reason: string | null;
  readonly nextRetryAt: string | null;
}

/** One request to the model inside an attempt, from 1 in each. */
export interface Call {
  readonly attempt: number | null;
  readonly call: number | null;
  /** Provider and model. */
  readonly dependency: string | null;
  readonly startedAt: string | null;
  readonly durationMs: number | null;
  readonly providerStatus: number | null;
  /** Why it failed; null when it did not. */
  readonly class: string | null;
  readonly waitHintMs: number | null;
  /** `done`, `again`, `queue` or `final`. */
  readonly decision: string | null;
  readonly inputTokens: number | null;
  readonly outputTokens: number | null;
  readonly costUsd: number | null;
}

/** Reads a ledger. */
export function ledgerOf(body: string): Ledger {
  const o = readObject(body);
  return {
    jobId: text(o, "job_id"),
    attempts: objects(o, "attempts").map((a) => ({
      attempt: wholeNumber(a, "attempt"),
      startedAt: text(a, "started_at"),
      endedAt: text(a, "ended_at"),
      durationMs: wholeNumber(a, "duration_ms"),
      status: text(a, "status"),
      reason: text(a, "reason"),
      nextRetryAt: text(a, "next_retry_at"),
    })),
    calls: objects(o, "calls").map((c) => ({
      attempt: wholeNumber(c, "attempt"),
      call: wholeNumber(c, "call"),
      dependency: text(c, "dependency"),
      startedAt: text(c, "started_at"),
      durationMs: wholeNumber(c, "duration_ms"),
      providerStatus: wholeNumber(c, "provider_status"),
      class: text(c, "class"),
      waitHintMs: wholeNumber(c, "wait_hint_ms"),
      decision: text(c, "decision"),
      inputTokens: wholeNumber(c, "input_tokens"),
      outputTokens: wholeNumber(c, "output_tokens"),
      costUsd: typeof c["cost_usd"] === "number" ? c["cost_usd"] : null,
    })),
  };
}

/**
 * Fetches the latest event of each session, up to 50, in the order asked for: for a
 * list that is drawn once. A session without a job has the event `idle`.
 */
export async function fetchStatuses(options: HttpOptions & { readonly workload?: string | undefined }, sessionIds: readonly string[]): Promise<StatusEvent[]> {
  const query = new URLSearchParams({ sessions: sessionIds.join(","), workload: options.workload ?? "summary" });
  const { body } = await new Http(options).call(
    { method: "GET", path: `/api/v1/status?${query}`, headers: { Accept: "application/json" } }, LIMIT);
  return objects(readObject(body), "statuses").map((o) => readEvent(text(o, "event") ?? "", o));
}

function objects(o: JsonObject, key: string): JsonObject[] {
  const list = o[key];
  return Array.isArray(list) ? list.filter((item): item is JsonObject => typeof item === "object" && item !== null && !Array.isArray(item)) : [];
}
