import { initialStatus, submit, subscribeSummaryStatus, Texts, TidingsError, type StatusEvent, type StatusSubscription } from "@tidings/client";
import { byId, element, setText } from "./element.js";
import { History } from "./history.js";
import { Many } from "./many.js";
import { Phone } from "./phone.js";
import { RawStream } from "./raw-stream.js";
import { sampleOf } from "./samples.js";
import { plannedSeconds } from "./seconds.js";
import { scenarioOf, type Scenario } from "./scenarios.js";
import { Timeline } from "./timeline.js";
import { startThemes } from "./theme.js";
import { wiretap, type Sight } from "./wiretap.js";

const MOVE_MS = 100; // how often countdowns move

/** One session on the page: a new one for each press of a button. */
interface Run {
  readonly sessionId: string;
  readonly scenario: Scenario;
  readonly source: string;
  readonly subscription: StatusSubscription;
  readonly history: History;
  /** Whether the first cut is still to come. */
  cut: boolean;
}

const languages = byId<HTMLSelectElement>("language");
const text = byId<HTMLTextAreaElement>("text");
const hint = byId("hint");
const news = byId("news");
const rawStream = new RawStream(byId("raw"), byId("raw-count"));
const tap = wiretap(see, () => languages.value || "en");
const timeline = new Timeline(byId("attempts"), () => void runNow());

const many = new Many(byId("sessions"), tap);

let run: Run | null = null;
let starts = 0;
let seen: StatusEvent | null = null;
let phone: Phone;
let refused = false; // the last start
let broken = false; // the stream, and not back yet

function see(sight: Sight): void {
  rawStream.show(sight);
  if (!("path" in sight) || !sight.path.endsWith("/status")) return; // other requests tell of their failures themselves
  if (sight.kind === "end" && sight.how === "broken") {
    broken = true;
    if (!refused) setText(news, "The connection is gone. The client comes back with the id of the last event it has.");
  }
  if (sight.kind === "answer" && sight.status === 200 && broken) {
    broken = false;
    setText(news, refused ? "The server answers again. Nothing has begun: try again." : "The client is back, and gets what it missed.");
  }
}

/** Starts a scenario in a session of its own: submits first, so that one stream follows the job from its start. */
async function start(scenario: Scenario): Promise<void> {
  const source = textToUse();
  if (source === null) return;
  run?.subscription.close();
  run = null;
  refused = broken = false;
  const mine = ++starts;
  const now = performance.now();
  rawStream.clear(now);
  for (const button of document.querySelectorAll<HTMLButtonElement>("[data-scenario]")) {
    button.classList.toggle("chosen", button.dataset["scenario"] === scenario.id);
  }
  setText(hint, scenario.hint);
  setText(news, "");
  byId("facts").replaceChildren();
  const sessionId = `demo-${crypto.getRandomValues(new Uint32Array(1))[0]!.toString(36)}`;
  const history = new History(now);
  timeline.draw(history);
  phone.begin(source, null);
  phone.draw(initialStatus(sessionId));
  const options = { baseUrl: "", sessionId, fetch: tap };
  const error: unknown = await submit(options, { input: { text: source }, simulate: scenario.simulate }).then(() => null, (e: unknown) => e);
  if (mine !== starts) return;
  const subscription = subscribeSummaryStatus(options);
  follow({ sessionId, scenario, source, cut: scenario.cut === true && error === null, history, subscription });
  phone.follow(subscription);
  if (error === null) return;
  refused = true;
  const detail = error instanceof TidingsError ? (error.detail ?? "") : "";
  setText(news, error instanceof TidingsError ? `The server did not take it. ${detail || error.message}` : "The server does not answer. Is it running?");
  phone.refuse(detail);
}

/** The text in the field; null, and a word about it, when it is empty. */
function textToUse(): string | null {
  const source = text.value.trim();
  text.toggleAttribute("aria-invalid", source === "");
  if (source !== "") return source;
  setText(hint, "There is nothing to summarize. Write a text, or use the sample.");
  text.focus();
  return null;
}

/** On a small screen the phone is elsewhere than the button that was tapped. */
function showPhone(): void {
  if (matchMedia("(max-width: 46rem)").matches && text.value.trim() !== "") byId("screen").scrollIntoView({ block: "nearest" });
}

/** Draws what a subscription says from now on, as long as it is this run's. */
function follow(mine: Run): void {
  run = mine;
  seen = null;
  mine.subscription.subscribe(() => {
    if (run !== mine) return;
    const s = mine.subscription.getSnapshot();
    if (s.event && s.event !== seen) {
      seen = s.event;
      take(mine, s.event);
    }
    connection();
    phone.draw(s);
  });
  connection();
}

/** Takes a new event: into the timeline, and what follows from it. */
function take(mine: Run, e: StatusEvent): void {
  mine.history.take(e, performance.now());
  timeline.draw(mine.history);
  if (!refused) setText(news, newsOf(e, mine.history));
  if (e.name === "retrying" || e.name === "completed" || e.name === "error") void enrich(mine);
  if (e.name === "completed") void mine.subscription.document().then((d) => { if (run === mine) phone.hold(d); }, () => {});
  if (e.name === "processing" && mine.cut) void cut(mine);
}

/** Cuts the open stream, at the server. */
async function cut(mine: Run): Promise<void> {
  mine.cut = false;
  await tap(`/dev/sessions/${mine.sessionId}/summary/streams`, { method: "DELETE" }).catch(() => {});
}

/** What the button does: cut what is open, or start something to cut. */
function kill(): void {
  const s = run?.subscription.getSnapshot();
  if (run && s && s.connection !== "closed" && s.outcome === "pending" && s.event && s.event.name !== "idle") {
    setText(hint, scenarioOf("cut").hint);
    void cut(run);
  } else {
    void start(scenarioOf("cut"));
  }
}

/** The user does not want to wait for the queue. */
async function runNow(): Promise<void> {
  if (!run) return;
  const answer = await tap(`/api/v1/sessions/${run.sessionId}/summary/retry`, { method: "POST" }).catch(() => null);
  if (!answer) setText(news, "The server does not answer, so the job waits on. Press again in a moment.");
  else if (!answer.ok) {
    const problem = (await answer.json().catch(() => ({}))) as { detail?: string };
    setText(news, problem.detail ?? `The server answered ${answer.status}.`);
  }
}

/** Gets what events do not say from the ledger. */
async function enrich(mine: Run): Promise<void> {
  const answer = await fetch(`/api/v1/sessions/${mine.sessionId}/summary/attempts`).catch(() => null);
  if (!answer?.ok) return;
  const ledger = (await answer.json()) as { calls?: { input_tokens?: number; output_tokens?: number }[] };
  if (run !== mine) return;
  mine.history.enrich(ledger);
  timeline.draw(mine.history);
  if (mine.history.endedAt === null) return;
  const tokens = (ledger.calls ?? []).reduce((sum, c) => sum + (c.input_tokens ?? 0) + (c.output_tokens ?? 0), 0);
  const facts: [string, string][] = [
    ["attempts", `${mine.history.attempts.size} of ${mine.history.maxAttempts}`],
    ["calls", `${ledger.calls?.length ?? 0} of ${mine.history.maxAttempts * mine.history.maxCalls}`],
    ["tokens", String(tokens)],
    ["time", `${((mine.history.endedAt - mine.history.startedAt) / 1000).toFixed(1)} s`],
  ];
  byId("facts").replaceChildren(...facts.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))));
}

/** An event in a sentence, for the line above the timeline and for screen readers. */
function newsOf(e: StatusEvent, history: History): string {
  switch (e.name) {
    case "idle": return history.lost ? "The server does not know this job any more: nothing survives its restart. Start another." : "";
    case "queued": return e.reason === "run_by_user" ? "Not waiting any longer."
      : e.notBefore ? "The model has no room just now. The attempt begins when it has." : "Waiting for a worker.";
    case "processing": return `Attempt ${e.attempt}, call ${e.call}: the model is at work.`;
    case "retrying": return e.layer === "queue"
      ? `Attempt ${e.attempt} failed. The queue starts attempt ${e.nextAttempt} in ${plannedSeconds(e.retryInMs ?? 0)} s.`
      : `Call ${e.call} failed. Call ${e.nextCall} follows in ${((e.retryInMs ?? 0) / 1000).toFixed(1)} s.`;
    case "completed": return "Completed: the summary is stored, and on the phone.";
    case "error": return e.canRetry ? "Ended with an error that the user may retry." : "Ended with an error.";
    default: return "";
  }
}

/** Shows how the connection is. */
function connection(): void {
  const s = run?.subscription.getSnapshot();
  const how = s?.connection ?? "closed";
  byId("connection").dataset["connection"] = how;
  setText(byId("connection-text"), how === "open" ? "open" : how === "reconnecting" ? "reconnecting" : "closed");
}

/** Speaks the chosen language: texts anew, and what the stream says from now on. */
async function speak(): Promise<void> {
  const language = languages.value;
  const texts = new Texts({ baseUrl: "", language, fetch: tap });
  await texts.load().catch(() => {}); // the built-in ones will do
  if (languages.value !== language) return;
  if (text.dataset["own"] !== "yes") text.value = sampleOf(language);
  text.lang = text.dataset["own"] === "yes" ? "" : languages.value;
  phone.speak(texts);
  many.speak(texts);
  if (run?.subscription.getSnapshot().connection === "open") run.subscription.foreground();
}

async function listLanguages(): Promise<void> {
  const answer = await fetch("/api/v1/locales");
  const { locales } = (await answer.json()) as { locales: { tag: string; name: string }[] };
  const wanted = navigator.language.toLowerCase().split("-")[0];
  languages.replaceChildren(...locales.map((l) => element("option", { value: l.tag, lang: l.tag, selected: l.tag === "en" }, l.name)));
  const own = locales.find((l) => l.tag === wanted || (l.tag === "nb" && (wanted === "no" || wanted === "nn")));
  if (own) languages.value = own.tag;
}

async function begin(): Promise<void> {
  startThemes(byId<HTMLButtonElement>("theme"));
  await listLanguages();
  phone = new Phone(byId("screen"), byId("phone-status"), new Texts({ baseUrl: "", language: languages.value, fetch: tap }), {
    later: () => run?.subscription.dismiss(),
    retry: () => void (refused && run ? start(run.scenario) : run?.subscription.retry()),
    open: () => reopen(),
  });
  text.value = sampleOf(languages.value);
  text.addEventListener("input", () => { text.dataset["own"] = text.value.trim() === "" ? "" : "yes"; });
  byId("sample").addEventListener("click", () => {
    text.dataset["own"] = "";
    text.value = sampleOf(languages.value);
    text.focus();
  });
  languages.addEventListener("change", () => void speak());
  for (const button of document.querySelectorAll<HTMLButtonElement>("[data-scenario]")) {
    const scenario = scenarioOf(button.dataset["scenario"]!);
    button.addEventListener("click", () => {
      if (scenario.cut) kill();
      else void start(scenario);
      showPhone();
    });
  }
  byId("three").addEventListener("click", () => {
    const source = textToUse();
    if (source !== null) void many.start(source);
  });
  setInterval(() => {
    timeline.tick();
    phone.tick();
  }, MOVE_MS);
  await speak();
  await start(scenarioOf("normal"));
}

/** Opens the session again from the list, as an app does: a new view with a subscription of its own. */
function reopen(): void {
  if (!run) return;
  const before = run;
  before.subscription.close();
  const mine: Run = { ...before, subscription: subscribeSummaryStatus({ baseUrl: "", sessionId: before.sessionId, fetch: tap }) };
  follow(mine);
  phone.begin(mine.source, mine.subscription);
  phone.draw(mine.subscription.getSnapshot());
}

void begin();
