import { readObject, text, wholeNumber } from "./event.js";
import { Http, type HttpOptions } from "./http.js";

const LIMIT = 30_000;

/** One contribution to a conversation. */
export interface Turn {
  readonly role: string;
  readonly content: string;
}

/** What a document is to be made from, and how. */
export interface Submission {
  readonly input: { readonly text: string } | { readonly messages: readonly Turn[] };
  /** The language of the document; without it the server chooses. */
  readonly language?: string | undefined;
  /** Cancels a live job that was submitted with other input. */
  readonly replace?: boolean | undefined;
  /** Makes it safe to send the same submission again after a lost answer; a new one by default. */
  readonly idempotencyKey?: string | undefined;
  /** Scripts the local model of a server in dev mode, one step per call. */
  readonly simulate?: readonly string[] | undefined;
}

/** What became of a submission. */
export interface Job {
  readonly jobId: string | null;
  readonly status: string | null;
}

/** A finished version of what a workload makes. */
export interface Document {
  readonly version: number | null;
  readonly createdAt: string | null;
  readonly model: string | null;
  readonly usage: unknown;
  /** Its form depends on the workload. */
  readonly content: unknown;
}

/** Where a submission goes. */
export interface SubmitOptions extends HttpOptions {
  readonly sessionId: string;
  /** `summary` (the default), `guidance` or `classification`. */
  readonly workload?: string | undefined;
}

/**
 * Starts a job, or finds the one that makes a document from the same input. Rejects with a
 * `TidingsError` that says why not: 409 `job_running` while one with other input lives,
 * 503 when the server takes no more.
 */
export async function submit(options: SubmitOptions, submission: Submission): Promise<Job> {
  const { body } = await new Http(options).call(
    {
      method: "POST",
      path: pathOf(options.sessionId, options.workload) + (submission.replace ? "?replace=true" : ""),
      headers: { Accept: "application/json", "Idempotency-Key": submission.idempotencyKey ?? randomKey() },
      json: { input: submission.input, language: submission.language, simulate: submission.simulate },
    },
    LIMIT,
  );
  return jobOf(body);
}

/** The address of a session's document, and the start of everything else's. */
export function pathOf(sessionId: string, workload = "summary"): string {
  return `/api/v1/sessions/${encodeURIComponent(sessionId)}/${encodeURIComponent(workload)}`;
}

/** A random idempotency key. Unlike `crypto.randomUUID` this works on pages without TLS, too. */
function randomKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Reads the answer to a submission. */
function jobOf(body: string): Job {
  const o = readObject(body);
  return { jobId: text(o, "job_id"), status: text(o, "status") };
}

/** Reads a document. */
export function documentOf(body: string): Document {
  const o = readObject(body);
  return {
    version: wholeNumber(o, "version"),
    createdAt: text(o, "created_at"),
    model: text(o, "model"),
    usage: o["usage"] ?? null,
    content: o["content"] ?? null,
  };
}
