import { submit, watchAll, type StatusList, type SummaryStatus, type Texts } from "@tidings/client";
import { element, setText } from "./element.js";

/** What the three sessions make, and what their model does. */
const three = [
  { workload: "summary", simulate: ["ok:3s"] },
  { workload: "guidance", simulate: ["529:1s", "529:1s", "ok:2s"] },
  { workload: "classification", simulate: ["401:2s"] },
];

/** A list of three sessions that follows all of them on one stream. */
export class Many {
  readonly #list: HTMLElement;
  readonly #fetch: typeof globalThis.fetch;
  #texts: Texts | null = null;
  #statuses: StatusList | null = null;

  constructor(list: HTMLElement, fetch: typeof globalThis.fetch) {
    this.#list = list;
    this.#fetch = fetch;
  }

  /** Speaks another language from now on. */
  speak(texts: Texts): void {
    this.#texts = texts;
    this.#draw();
  }

  /** Starts three jobs and follows them. */
  async start(text: string): Promise<void> {
    this.#statuses?.close();
    const options = { baseUrl: "", fetch: this.#fetch };
    const id = `many-${crypto.getRandomValues(new Uint32Array(1))[0]!.toString(36)}`;
    const list = watchAll(options, three.map(({ workload }) => `${id}/${workload}`));
    this.#statuses = list;
    this.#list.replaceChildren(...three.map(({ workload }) => element("li", { "data-workload": workload },
      element("span", { class: "badge", "aria-hidden": "true" }), element("b", {}, workload), element("span", { class: "state" }))));
    list.subscribe(() => this.#draw());
    this.#draw();
    // One that is refused stays without a job, and says so on the stream.
    await Promise.allSettled(three.map(({ workload, simulate }) =>
      submit({ ...options, sessionId: id, workload }, { input: { text }, simulate })));
  }

  #draw(): void {
    for (const [name, status] of this.#statuses?.getSnapshot() ?? []) {
      const row = this.#list.querySelector<HTMLElement>(`[data-workload="${name.split("/")[1]}"]`);
      if (!row) continue;
      row.dataset["outcome"] = status.outcome;
      setText(row.querySelector(".state")!, this.#words(status));
    }
  }

  #words(s: SummaryStatus): string {
    const own = s.event && s.event.name !== "error" ? s.event.message : null;
    return own ?? this.#texts?.get(`status_${s.event?.name ?? "idle"}`) ?? "";
  }
}
