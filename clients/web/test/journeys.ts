import type * as Tidings from "../src/index.js";

/** What users live through. The same code runs in Node and in a page, so it may use neither's own things. */
export interface Where {
  readonly client: typeof Tidings;
  readonly baseUrl: string;
  readonly session: string;
  /** Kills every connection that is open on the way to the server. */
  readonly kill: () => Promise<void>;
}

const text = "The pump lost pressure in the night. The seal was worn and has been replaced. It has held since.";

/** Follows a session and remembers all that it told. */
class Follower {
  readonly of: Tidings.StatusSubscription;
  told: Tidings.SummaryStatus[] = [];
  #wake = () => {};

  constructor(where: Where, options?: Partial<Tidings.SubscribeOptions>) {
    this.of = where.client.subscribeSummaryStatus({ baseUrl: where.baseUrl, sessionId: where.session, ...options });
    const note = () => {
      this.told.push(this.of.getSnapshot());
      this.#wake();
    };
    note();
    this.of.subscribe(note);
  }

  /** Waits for a status; those that were told before count as well. */
  async until(is: (s: Tidings.SummaryStatus) => boolean): Promise<Tidings.SummaryStatus> {
    for (;;) {
      const found = this.told.find(is);
      if (found) return found;
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  /** Submits, and forgets what was told before: the subscription starts anew, even if it knew the job already. */
  async submit(...simulate: string[]): Promise<void> {
    await this.of.submit({ input: { text }, simulate });
    this.told = [this.of.getSnapshot()];
  }

  event(name: string): Promise<Tidings.SummaryStatus> {
    return this.until((s) => s.event?.name === name);
  }

  /** The events of a job, each once, as "retrying queue". */
  events(): { seq: number; name: string }[] {
    const all: { seq: number; name: string }[] = [];
    for (const { event } of this.told) {
      if (!event?.seq || event.seq === all.at(-1)?.seq) continue;
      all.push({ seq: event.seq, name: [event.name, event.layer].filter(Boolean).join(" ") });
    }
    return all;
  }
}

async function follow(where: Where, options?: Partial<Tidings.SubscribeOptions>): Promise<Follower> {
  const f = new Follower(where, options);
  await f.event("idle"); // the stream is there
  return f;
}

/** Submits as somebody else: a subscription that submits itself may join the new job when it is under way. */
async function submit(where: Where, ...simulate: string[]): Promise<void> {
  const other = where.client.subscribeSummaryStatus({ baseUrl: where.baseUrl, sessionId: where.session });
  await other.submit({ input: { text }, simulate });
  other.close();
}

async function retries(where: Where) {
  const f = await follow(where);
  await submit(where, "503", "503", "503", "ok");
  const end = await f.event("completed");
  const document = await f.of.document();
  f.of.close();
  const waits = f.told.filter((s) => s.event?.name === "retrying");
  const again = await fetch(`${where.baseUrl}/api/v1/sessions/${where.session}/summary/status`, {
    headers: { "Last-Event-ID": end.lastEventId ?? "" },
  });
  return {
    events: f.events().map((e) => e.name),
    phase: end.phase,
    connection: end.connection,
    version: document?.version,
    saysWhy: waits.every((s) => Boolean(s.event?.message) && s.nextTryAt !== null && s.phase === "retrying"),
    content: JSON.stringify(document?.content).includes("pump"),
    withTheLastPosition: again.status,
  };
}

/** The submission's answer comes after the job's end: the subscription has told of the error, starts anew and tells it again. */
async function failure(where: Where) {
  const late: typeof fetch = async (url, init) => {
    const response = await fetch(url, init);
    if (String(url).endsWith("/summary") && init?.method === "POST") await f.event("error");
    return response;
  };
  const f = await follow(where, { fetch: late });
  await f.submit("invalid_output", "ok");
  const failed = await f.event("error");
  const accepted = await f.of.retry();
  if (!accepted) return { accepted, status: f.of.getSnapshot() }; // nothing more would come
  const end = await f.event("completed");
  f.of.close();
  return {
    phase: failed.phase, canRetry: failed.canRetry, outcome: failed.event?.outcome, accepted,
    anotherJob: end.event?.jobId !== failed.event?.jobId,
  };
}

async function cancel(where: Where) {
  const f = await follow(where);
  await submit(where, "hang");
  await f.event("processing"); // nothing more will come: whoever holds events back holds this one for ever
  await f.of.cancel();
  const end = await f.event("error");
  const document = await f.of.document();
  f.of.close();
  return { reason: end.event?.reason, document };
}

async function resume(where: Where) {
  const f = await follow(where);
  await submit(where, "503", "503", "503", "ok");
  await f.event("processing");
  await where.kill();
  await f.until((s) => s.connection === "reconnecting" && s.event?.seq != null);
  await f.event("completed");
  f.of.close();
  const seqs = f.events().map((e) => e.seq);
  return { events: f.events().map((e) => e.name), inOrder: seqs.every((seq, i) => i === 0 || seq > seqs[i - 1]!) };
}

async function texts(where: Where) {
  const languages: string[] = [];
  const sameAsBuiltIn: boolean[] = [];
  const statuses = new Set<string>();
  let answers: number[] = [];
  const noting: typeof fetch = async (...args) => {
    const response = await fetch(...args);
    answers.push(response.status);
    return response;
  };
  for (const tag of ["ar", "da", "de", "en", "es", "fi", "fr", "it", "ja", "ko", "nb", "nl", "pl", "pt", "sv", "zh"]) {
    answers = [];
    const options = { baseUrl: where.baseUrl, language: tag, fetch: noting };
    const [fetched, builtIn] = [new where.client.Texts(options), new where.client.Texts(options)];
    await fetched.load();
    await fetched.load();
    statuses.add(answers.join());
    languages.push(fetched.language);
    for (const key of ["ai_workload_retry_button", "session_see_later", "ai_workload_guidance_error"]) {
      sameAsBuiltIn.push(fetched.get(key) === builtIn.get(key) && fetched.get(key) !== key);
    }
  }
  return { languages: languages.join(" "), sameAsBuiltIn: sameAsBuiltIn.every(Boolean), statuses: [...statuses] };
}

async function languages(where: Where) {
  const [english, norwegian] = [await follow(where, { language: "en" }), await follow(where, { language: "nn-NO" })];
  await submit(where, "503", "ok");
  const said = await Promise.all([english, norwegian].map(async (f) => (await f.event("retrying")).event?.message?.split(" ")[0]));
  english.of.close();
  norwegian.of.close();
  return said;
}

const whole = ["queued", "processing", "retrying call", "processing", "retrying call", "processing", "retrying queue", "processing", "completed"];

/** Each journey, and what it finds at the end. */
export const journeys: Record<string, { go: (where: Where) => Promise<unknown>; finds: unknown }> = {
  "through both layers of retries to the document": {
    go: retries,
    finds: { events: whole, phase: "done", connection: "closed", version: 1, saysWhy: true, content: true, withTheLastPosition: 204 },
  },
  "error, and a retry that helps": {
    go: failure,
    finds: { phase: "error", canRetry: true, outcome: "failed", accepted: true, anotherJob: true },
  },
  cancel: { go: cancel, finds: { reason: "cancelled", document: null } },
  "a killed connection resumes without gap or repeat": { go: resume, finds: { events: whole, inOrder: true } },
  "texts in every language, by their ETag": {
    go: texts,
    finds: { languages: "ar da de en es fi fr it ja ko nb nl pl pt sv zh", sameAsBuiltIn: true, statuses: ["200,304"] },
  },
  "each reader in a language of their own": { go: languages, finds: ["Retrying", "Prøver"] },
};
