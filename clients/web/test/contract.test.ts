import { afterAll, describe, expect, it } from "vitest";
import { isDeepStrictEqual } from "node:util";
import { subscribeSummaryStatus, Texts, watchAll, TidingsError, type StatusSubscription, type SummaryStatus, type WatchAllOptions } from "../src/index.js";
import { startContractServer } from "./contract-server.js";

type Line = Record<string, unknown>;

interface Run {
  base_url: string;
  client: { session_id: string; workload: string; language?: string; watchdog_ms: number; tokens?: string[]; sessions?: string[] };
  actions: { when: Line; do: string; text?: string }[];
  until: Line;
}

const { url: server, stop } = await startContractServer();
afterAll(stop);
const names = (await (await fetch(`${server}/cases`)).json()) as string[];

it("there are cases", () => expect(names.length).toBeGreaterThan(0));

// Some cases wait for pauses that the server or the client makes.
describe.concurrent("contract", () => {
  it.each(names)("%s", { timeout: 25_000 }, async (name) => {
    const begun = await fetch(`${server}/runs`, { method: "POST", body: JSON.stringify({ case: name }) });
    const run = (await begun.json()) as Run;
    const lines = await drive(run);
    const report = lines.map((line) => JSON.stringify(line)).join("\n");
    const verdict = await fetch(`${run.base_url}/report`, { method: "POST", body: report });
    expect(await verdict.text()).toBe("");
    expect(verdict.status).toBe(200);
  });
});

/** Makes a client as the case says, does what its user does, and returns what there was to see. */
async function drive(run: Run): Promise<Line[]> {
  const lines: Line[] = [];
  let last: Line = {};
  let wake = () => {};
  const options = { baseUrl: run.base_url, language: run.client.language, getToken: oneAfterTheOther(run.client.tokens) };
  if (run.client.sessions) return driveList(run, run.client.sessions, options);
  const texts = new Texts(options);
  const subscription = subscribeSummaryStatus({
    ...options,
    sessionId: run.client.session_id,
    workload: run.client.workload,
    watchdogMs: run.client.watchdog_ms,
  });
  const note = () => {
    const line = written(subscription.getSnapshot());
    if (isDeepStrictEqual(line, last)) return;
    lines.push((last = line));
    wake();
  };
  const matching = async (when: Line) => {
    while (!Object.entries(when).every(([key, value]) => isDeepStrictEqual(last[key], value))) {
      await new Promise<void>((resolve) => (wake = resolve));
    }
  };
  note();
  subscription.subscribe(note);
  try {
    for (const action of run.actions) {
      await matching(action.when);
      const result = await act(subscription, texts, action.do, action.text ?? "");
      if (result) lines.push(result);
      await fetch(`${run.base_url}/did`, { method: "POST" });
    }
    await matching(run.until);
  } finally {
    subscription.close();
  }
  return lines;
}

/** Follows the sessions of a case as a list, and returns the last status of each. */
async function driveList(run: Run, sessions: string[], options: WatchAllOptions): Promise<Line[]> {
  const list = watchAll({ ...options, workload: run.client.workload, watchdogMs: run.client.watchdog_ms }, sessions);
  const matching = async (when: Line) => {
    for await (const statuses of list) {
      const lines: Line[] = sessions.map((session) => ({ ...written(statuses.get(session)!), session }));
      if (lines.some((line) => Object.entries(when).every(([key, value]) => isDeepStrictEqual(line[key], value)))) return lines;
    }
    throw new Error("the list has ended");
  };
  try {
    for (const action of run.actions) {
      await matching(action.when);
      expect(action.do, "of a list").toBe("nothing");
      await fetch(`${run.base_url}/did`, { method: "POST" });
    }
    return await matching(run.until);
  } finally {
    list.close();
  }
}

function oneAfterTheOther(tokens: string[] | undefined) {
  const left = [...(tokens ?? [])];
  return ({ refresh }: { refresh: boolean }) => {
    if (refresh && left.length > 1) left.shift();
    return left[0] ?? null;
  };
}

/** A status as the cases write it. */
function written(s: SummaryStatus): Line {
  return {
    phase: s.phase,
    spinner: s.spinner,
    message_key: s.messageKey,
    retry_attempt: s.retryAttempt,
    can_retry: s.canRetry,
    can_dismiss: s.canDismiss,
    connection: s.connection,
    last_event_id: s.lastEventId,
    outcome: s.outcome,
    event: s.event?.name ?? null,
    reason: s.event?.reason ?? null,
    message: s.event?.message ?? null,
    counts_down: s.nextTryAt !== null,
    problem: s.problem ? s.problem.message.replace("the server answered ", "") : null,
  };
}

async function act(subscription: StatusSubscription, texts: Texts, what: string, input: string): Promise<Line | null> {
  const refused = (status: number, code: string | null, retryAfterMs: number) =>
    ({ result: what, ok: false, status, code, retry_after_ms: retryAfterMs });
  try {
    switch (what) {
      case "nothing":
        return null;
      case "dismiss":
        subscription.dismiss();
        return null;
      case "foreground":
        subscription.foreground();
        return null;
      case "retry": {
        if (await subscription.retry()) return { result: what, ok: true };
        const problem = subscription.getSnapshot().problem!;
        return refused(problem.status, problem.code, problem.retryAfterMs);
      }
      case "cancel":
        await subscription.cancel();
        return { result: what, ok: true };
      case "submit": {
        const job = await subscription.submit({ input: { text: input } });
        return { result: what, ok: true, job_id: job.jobId, job_status: job.status };
      }
      case "document": {
        const found = await subscription.document();
        if (!found) return refused(404, "no_document", 0);
        return { result: what, ok: true, version: found.version, content: found.content };
      }
      case "texts":
        await texts.load();
        return {
          result: what, ok: true, language: texts.language,
          busy: texts.get("ai_service_busy_retrying"), later: texts.get("session_see_later"), again: texts.get("ai_workload_retry_button"),
        };
      default:
        throw new Error(`the case wants ${what}, which this driver does not know`);
    }
  } catch (problem) {
    if (!(problem instanceof TidingsError)) throw problem;
    return refused(problem.status, problem.code, problem.retryAfterMs);
  }
}
