import "@tidings/client/tidings-error";
import type { Document, StatusSubscription, SummaryStatus, Texts } from "@tidings/client";
import { element, setText } from "./element.js";
import { plannedSeconds, secondsLeft } from "./seconds.js";

const BLINK_MS = 2_000; // a shorter wait is over before a countdown is read

/** What the phone may ask of the page. */
export interface PhoneActions {
  readonly later: () => void;
  readonly retry: () => void;
  /** Opens the session from the list. */
  readonly open: () => void;
}

type View = "wait" | "error" | "done" | "list";

/** The app on the phone. All of its words are the server's, in the chosen language; the rest is the user's own text. */
export class Phone {
  readonly #screen: HTMLElement;
  readonly #status: HTMLElement;
  readonly #actions: PhoneActions;
  #texts: Texts;
  #source = "";
  #view: View | null = null;
  #document: Document | null = null;
  #refusal: string | null = null;
  #subscription: StatusSubscription | null = null;
  #tick: () => void = () => {};

  constructor(screen: HTMLElement, status: HTMLElement, texts: Texts, actions: PhoneActions) {
    this.#screen = screen;
    this.#status = status;
    this.#texts = texts;
    this.#actions = actions;
  }

  /** Begins with another text. */
  begin(source: string, subscription: StatusSubscription | null): void {
    this.#source = source;
    this.#subscription = subscription;
    this.#document = this.#refusal = null;
    this.#view = null;
  }

  /** Shows a subscription from now on. */
  follow(subscription: StatusSubscription): void {
    this.#subscription = subscription;
    this.draw(subscription.getSnapshot());
  }

  /** The server did not take the text: `detail` is its word for people, or empty. */
  refuse(detail: string): void {
    this.#refusal = detail;
    if (this.#subscription) this.draw(this.#subscription.getSnapshot());
  }

  /** Speaks another language from now on. */
  speak(texts: Texts): void {
    this.#texts = texts;
    this.#screen.lang = this.#status.lang = texts.language;
    this.#screen.dir = this.#status.dir = texts.direction;
    this.#view = null;
    if (this.#subscription) this.draw(this.#subscription.getSnapshot());
  }

  /** Has the finished document. */
  hold(document: Document | null): void {
    this.#document = document;
    this.#view = null;
    if (this.#subscription) this.draw(this.#subscription.getSnapshot());
  }

  /** Draws a status. A view stays as long as it is the same, so that focus and spinner do. */
  draw(s: SummaryStatus): void {
    const view = this.#viewOf(s);
    if (view !== this.#view) {
      const focused = this.#screen.contains(document.activeElement);
      this.#view = view;
      this.#tick = () => {};
      this.#screen.dataset["view"] = view;
      this.#screen.replaceChildren(...this.#make(view));
      if (focused) this.#screen.querySelector<HTMLElement>("tidings-error, button, [tabindex]")?.focus();
    }
    this.#update(view, s);
    this.tick();
  }

  #viewOf(s: SummaryStatus): View {
    if (s.phase === "dismissed") return "list";
    if (s.phase === "error" || this.#refusal !== null) return "error";
    return s.phase === "done" && this.#document ? "done" : "wait";
  }

  /** Moves the countdown on. */
  tick(): void {
    this.#tick();
  }

  #make(view: View): Node[] {
    switch (view) {
      case "wait": return [this.#excerpt(), element("div", { class: "waiting" }, element("span", { class: "spinner", "aria-hidden": "true" }),
        element("p", { class: "message" }), element("p", { class: "countdown" })), this.#later()];
      case "error": return [this.#excerpt(), this.#error()];
      case "done": return [this.#summary()];
      case "list": return [this.#card()];
    }
  }

  #update(view: View, s: SummaryStatus): void {
    const say = (text: string) => setText(this.#status, text);
    switch (view) {
      case "wait": {
        const message = this.#texts.get(s.messageKey ?? "session_summary_compiling");
        const spinner = this.#screen.querySelector<HTMLElement>(".spinner")!;
        spinner.classList.toggle("resting", !s.spinner && s.phase !== "done");
        setText(this.#screen.querySelector(".message")!, message);
        const countdown = this.#screen.querySelector<HTMLElement>(".countdown")!;
        const tick = () => {
          const ms = this.#subscription?.retryInMs() ?? null;
          countdown.hidden = s.phase !== "retrying" || ms === null || (s.event?.retryInMs ?? 0) < BLINK_MS;
          if (ms !== null) setText(countdown, [this.#seconds(secondsLeft(ms, plannedSeconds(s.event?.retryInMs ?? 0))), tryOf(s)].join(" · "));
        };
        this.#tick = tick;
        tick();
        say(s.phase === "retrying" && countdown.textContent && !countdown.hidden ? `${message} ${s.event?.message ?? ""}` : message);
        break;
      }
      case "error": {
        const error = this.#screen.querySelector("tidings-error")!;
        const refused = this.#refusal !== null;
        error.toggleAttribute("no-retry", !s.canRetry && !refused);
        const reason = refused ? this.#refusal : s.canRetry ? null : (s.problem?.detail ?? this.#texts.get(s.event?.reason ? `reason_${s.event.reason}` : null));
        if (reason) error.setAttribute("text", reason);
        else error.removeAttribute("text");
        this.#tick = () => error.toggleAttribute("disabled", (this.#subscription?.retryAllowedInMs() ?? 0) > 0);
        say(""); // the error view is an alert itself
        break;
      }
      case "done":
        say(`${this.#texts.get("outcome_completed")} ${titleOf(this.#document)}`);
        break;
      case "list": {
        const text = s.outcome === "completed" ? this.#texts.get("outcome_completed")
          : s.outcome === "failed" ? this.#texts.get("status_error")
          : this.#texts.get(`status_${s.event?.name ?? "queued"}`);
        this.#screen.querySelector<HTMLElement>(".card")!.dataset["outcome"] = s.outcome;
        setText(this.#screen.querySelector(".card .state")!, text);
        say(text);
        break;
      }
    }
  }

  /** A number of seconds as the language says it. */
  #seconds(n: number): string {
    return new Intl.NumberFormat(this.#texts.language, { style: "unit", unit: "second", unitDisplay: "long" }).format(n);
  }

  #excerpt(): HTMLElement {
    return element("blockquote", {}, element("p", { class: "excerpt", dir: "auto" }, this.#source.slice(0, 400)));
  }

  #later(): HTMLElement {
    const button = element("button", { type: "button", class: "later" }, this.#texts.get("session_see_later"));
    button.addEventListener("click", this.#actions.later);
    return button;
  }

  #error(): HTMLElement {
    const later = this.#later();
    later.slot = "actions";
    const error = element("tidings-error", { workload: "summary" }, later);
    error.texts = this.#texts;
    error.addEventListener("retry", this.#actions.retry);
    return error;
  }

  #card(): HTMLElement {
    const card = element("button", { type: "button", class: "card" },
      element("span", { class: "excerpt", dir: "auto" }, this.#source.slice(0, 200)),
      element("span", { class: "state-line" }, element("span", { class: "badge", "aria-hidden": "true" }), element("span", { class: "state" })));
    card.addEventListener("click", this.#actions.open);
    return card;
  }

  #summary(): HTMLElement {
    const content = contentOf(this.#document);
    const points = Array.isArray(content["key_points"]) ? content["key_points"].filter((p) => typeof p === "string") : [];
    return element("article", { class: "summary", tabindex: "0", "aria-labelledby": "summary-title", dir: "auto" },
      element("p", { class: "ready", dir: this.#texts.direction }, this.#texts.get("outcome_completed")),
      element("h3", { id: "summary-title", dir: "auto" }, titleOf(this.#document)),
      element("p", { class: "text", dir: "auto" }, typeof content["summary"] === "string" ? content["summary"] : ""),
      points.length ? element("ul", { class: "points" }, ...points.map((p) => element("li", { dir: "auto" }, p as string))) : null);
  }
}

function contentOf(document: Document | null): Readonly<Record<string, unknown>> {
  const content = document?.content;
  return content && typeof content === "object" ? (content as Record<string, unknown>) : {};
}

function titleOf(document: Document | null): string {
  const title = contentOf(document)["title"];
  return typeof title === "string" ? title : "";
}

/** Which try comes, of how many: 2/4. */
function tryOf(s: SummaryStatus): string {
  const e = s.event;
  return e?.layer === "call" ? `${e.nextCall}/${e.maxCalls}` : `${e?.nextAttempt}/${e?.maxAttempts}`;
}
