import { element, setText } from "./element.js";
import { plannedSeconds, secondsLeft } from "./seconds.js";
import type { Attempt, Call, History, Wait } from "./history.js";

const words: Readonly<Record<string, string>> = {
  overloaded: "overloaded", rate_limited: "too many requests", unavailable: "unavailable", timeout: "no answer in time",
  network: "no connection", auth: "key refused", quota: "quota used up", misconfigured: "not set up correctly", invalid_input: "bad input", invalid_output: "unusable output",
  stream_interrupted: "broke off", cancelled: "cancelled", attempts: "all attempts used", call_allowance: "all calls used",
  lost: "lost with the server",
};

/** The timeline of both layers: a row for each attempt with its calls, and the queue's waits between them. */
export class Timeline {
  readonly #list: HTMLElement;
  readonly #runNow: () => void;
  #drawn: History | null = null;
  #moving: (() => void)[] = []; // what changes with time alone

  constructor(list: HTMLElement, runNow: () => void) {
    this.#list = list;
    this.#runNow = runNow;
  }

  /** Draws it anew: something has happened. */
  draw(h: History): void {
    this.#drawn = h;
    this.#moving = [];
    const focused = this.#list.contains(document.activeElement);
    const rows: HTMLElement[] = [];
    for (let n = 1; n <= h.maxAttempts; n++) {
      const a = h.attempts.get(n);
      rows.push(this.#attempt(n, a, h));
      if (n < h.maxAttempts) rows.push(this.#between(n, a?.wait ?? null));
    }
    this.#list.replaceChildren(...rows);
    this.tick();
    if (focused) (this.#list.querySelector<HTMLElement>("button") ?? this.#list).focus(); // and never back at the page's top
  }

  /** Moves the countdowns on. */
  tick(): void {
    for (const move of this.#moving) move();
  }

  #attempt(n: number, a: Attempt | undefined, h: History): HTMLElement {
    const state = !a ? "ahead" : a.over || (h.endedAt === null ? "running" : "failed");
    const calls = element("ol", { class: "calls", "aria-label": `Calls of attempt ${n}` });
    for (let k = 1; k <= h.maxCalls; k++) {
      calls.append(dot(k, a?.calls.get(k)));
      if (k < h.maxCalls) calls.append(this.#pause(a?.pauses.get(k) ?? null));
    }
    const last = a ? [...a.calls.values()].at(-1) : undefined;
    const verdict = !a ? "" : a.over === "done" ? "done" : last?.state === "failed" ? [last.status, words[last.reason ?? ""] ?? last.reason].filter(Boolean).join(" ")
      : "calling the model";
    return element("li", { class: `attempt ${state}` },
      element("span", { class: "number", "aria-hidden": "true" }, String(n)),
      element("div", { class: "body" },
        element("span", { class: "name" }, `Attempt ${n}`, !a ? element("span", { class: "unseen" }, ", not needed so far") : null),
        calls,
        element("span", { class: "verdict" }, verdict),
        element("span", { class: "when" }, a ? `+${((a.startedAt - h.startedAt) / 1000).toFixed(1)} s` : "")));
  }

  #pause(wait: Wait | null): HTMLElement {
    const fill = element("span", { class: "fill" });
    const left = element("span", { class: "left" });
    const pause = element("li", { class: `pause ${wait ? (wait.over ? "over" : "active") : "ahead"}`, "aria-hidden": wait ? null : "true" },
      element("span", { class: "track" }, fill), left);
    if (wait) this.#follow(wait, fill, (ms) => setText(left, `${((wait.over ? wait.until - wait.from : ms) / 1000).toFixed(1)} s`));
    return pause;
  }

  #between(n: number, wait: Wait | null): HTMLElement {
    const row = element("li", { class: `wait ${wait ? (wait.over ? "over" : "active") : "ahead"}`, "aria-hidden": wait ? null : "true" });
    if (!wait) return row;
    const fill = element("span", { class: "fill" });
    const left = element("span", { class: "left" });
    const total = plannedSeconds(wait.until - wait.from);
    const button = element("button", { type: "button", class: "run-now", "aria-label": `Run now: attempt ${n + 1}` }, "Run now");
    button.addEventListener("click", this.#runNow);
    row.append(element("div", { class: "body" },
      element("span", { class: "name" }, wait.over === "run_now" ? "The user did not wait" : wait.over === "lost" ? "The queue is gone" : wait.over ? `The queue waited ${total} s` : "The queue waits"),
      element("span", { class: "track" }, fill), left, wait.over ? null : button));
    this.#follow(wait, fill, (ms) => setText(left, wait.over ? "" : `${secondsLeft(ms, total)} s left of ${total}`));
    return row;
  }

  #follow(wait: Wait, fill: HTMLElement, tell: (leftMs: number) => void): void {
    const move = () => {
      const left = Math.max(wait.until - performance.now(), 0);
      fill.style.inlineSize = wait.over ? (wait.over === "waited" ? "100%" : "") : `${100 * (1 - left / Math.max(wait.until - wait.from, 1))}%`;
      tell(left);
    };
    if (wait.over || this.#drawn?.endedAt !== null) move();
    else this.#moving.push(move);
  }
}

const marks = { running: "", failed: "✕", done: "✓" };

function dot(k: number, c: Call | undefined): HTMLElement {
  const told = !c ? "not made" : c.state === "running" ? "under way" : c.state === "done" ? "answered"
    : `failed: ${[c.status, words[c.reason ?? ""] ?? c.reason].filter(Boolean).join(" ")}`;
  const took = c?.tookMs ? `, ${(c.tookMs / 1000).toFixed(1)} s` : "";
  return element("li", { class: `call ${c?.state ?? "ahead"}`, title: `Call ${k} ${told}${took}` },
    element("span", { class: "mark", "aria-hidden": "true" }, c ? marks[c.state] : ""),
    element("span", { class: "unseen" }, `Call ${k} ${told}${took}`));
}
