import { element, setText } from "./element.js";
import type { Sight } from "./wiretap.js";

const MOST = 400; // entries that are kept

/** The raw stream: what the wiretap sees, line by line. */
export class RawStream {
  readonly #log: HTMLElement;
  readonly #count: HTMLElement;
  #events = 0;
  #frame: HTMLElement | null = null;
  #resumed = false;
  #start = 0;

  constructor(log: HTMLElement, count: HTMLElement) {
    this.#log = log;
    this.#count = count;
  }

  /** Begins anew. */
  clear(now: number): void {
    this.#log.replaceChildren();
    this.#events = 0;
    this.#frame = null;
    this.#resumed = false;
    this.#start = now;
    this.#counted();
  }

  /** Shows one more sight. */
  readonly show = (sight: Sight): void => {
    const atEnd = this.#log.scrollHeight - this.#log.scrollTop - this.#log.clientHeight < 24;
    this.#add(sight);
    while (this.#log.childElementCount > MOST) this.#log.firstElementChild!.remove();
    if (atEnd) this.#log.scrollTop = this.#log.scrollHeight;
  };

  #add(sight: Sight): void {
    switch (sight.kind) {
      case "request":
        this.#frame = null;
        this.#row("request", sight, `${sight.method} ${sight.path}`, sight.cursor && `Last-Event-ID: ${sight.cursor}`);
        if (sight.path.endsWith("/status")) this.#resumed = sight.cursor !== "";
        break;
      case "answer":
        this.#row(sight.status < 400 ? "answer" : "refusal", sight, [sight.status, sight.code].filter(Boolean).join(" "));
        break;
      case "end":
        this.#frame = null;
        if (sight.how === "broken") this.#row("broken", sight, "connection lost");
        if (sight.how === "whole") this.#row("answer", sight, "end of the stream");
        break;
      case "line":
        this.#line(sight, sight.text);
    }
  }

  #row(kind: string, sight: Sight, text: string, more = ""): void {
    this.#log.append(element("div", { class: `entry ${kind}` },
      element("span", { class: "when" }, this.#time(sight)), element("span", { class: "what" }, text),
      more ? element("span", { class: "more" }, more) : null));
  }

  #line(sight: Sight, text: string): void {
    if (text === "") {
      this.#frame = null;
      return;
    }
    if (!this.#frame) {
      this.#frame = element("div", { class: "entry frame" }, element("span", { class: "when" }, this.#time(sight)), element("div", { class: "lines" }));
      this.#log.append(this.#frame);
    }
    const lines = this.#frame.lastElementChild!;
    const colon = text.indexOf(":");
    const [name, value] = colon < 0 ? [text, ""] : [text.slice(0, colon), text.slice(colon + 1).trimStart()];
    if (name === "") {
      lines.append(element("div", { class: "comment" }, value === "" ? `: (${text.length + 1} bytes of padding)` : text));
      return;
    }
    if (name === "event") {
      this.#frame.dataset["event"] = value;
      this.#events++;
      this.#counted();
    }
    lines.append(element("div", { class: `line ${name}` }, element("b", {}, `${name}: `), name === "data" ? json(value) : element("span", {}, value)));
    if (name === "data" && this.#resumed) {
      const late = lateness(value);
      if (late > 400) lines.append(element("div", { class: "missed" }, `happened ${(late / 1000).toFixed(1)} s ago, while the line was down`));
    }
  }

  #time(sight: Sight): string {
    return `${((sight.at - this.#start) / 1000).toFixed(1)}s`;
  }

  #counted(): void {
    setText(this.#count, this.#events === 1 ? "1 event" : `${this.#events} events`);
  }
}

/** A line of JSON, its names set off from its values. */
function json(line: string): HTMLElement {
  const parts = line.split(/("\w+":)/);
  return element("span", {}, ...parts.map((part, i) => (i % 2 ? element("i", {}, part) : part)));
}

/** How long before it was sent an event had happened, by the server's clock. */
function lateness(data: string): number {
  try {
    const { at, server_time: sent } = JSON.parse(data) as { at?: string; server_time?: string };
    return Date.parse(sent ?? "") - Date.parse(at ?? "");
  } catch {
    return 0;
  }
}
