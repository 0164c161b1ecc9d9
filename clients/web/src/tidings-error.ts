import { builtInLanguage, builtInText, directionOf, type Texts } from "./texts.js";

// Importing this module must do no harm on a server.
const Base: typeof HTMLElement = globalThis.HTMLElement ?? (class {} as typeof HTMLElement);

const styles = `
  :host { display: block; --own-accent: #2f6fde; }
  @media (prefers-color-scheme: dark) { :host { --own-accent: #86aef5; } }
  :host([hidden]) { display: none; }
  .view {
    display: flex; flex-direction: column; align-items: center; gap: 1rem;
    max-width: 26rem; margin: 0 auto; padding: 1.5rem; text-align: center;
    color: var(--tidings-text, inherit); font: inherit; line-height: 1.45;
  }
  svg { width: 3rem; height: 3rem; color: var(--tidings-icon, var(--tidings-accent, var(--own-accent))); }
  p { margin: 0; text-wrap: balance; }
  button {
    min-height: 2.75rem; padding: 0 1.25rem; border-radius: var(--tidings-radius, 0.75rem);
    border: 1px solid transparent; background: transparent; cursor: pointer;
    color: var(--tidings-accent, var(--own-accent)); font: inherit; font-weight: 600;
  }
  button:hover { background: color-mix(in srgb, currentColor 10%, transparent); }
  button:focus-visible { outline: 2px solid currentColor; outline-offset: 2px; }
  button:disabled { opacity: 0.5; cursor: default; }`;

const template = `
<div class="view" part="view" role="alert">
  <slot name="icon">
    <svg part="icon" viewBox="0 0 48 48" fill="none" stroke="currentColor" stroke-width="2.5" stroke-linecap="round" aria-hidden="true">
      <path d="M14 35a9 9 0 0 1-1.4-17.9A12.5 12.5 0 0 1 36.8 20 7.8 7.8 0 0 1 35 35Z" stroke-linejoin="round"/>
      <path d="M24 21v6"/><path d="M24 31.2v.1"/>
    </svg>
  </slot>
  <p part="text"></p>
  <button part="button" type="button"></button>
  <slot name="actions"></slot>
</div>`;

/**
 * `<tidings-error>`: that a document could not be made, and what the user can do. An
 * icon, the text for the workload, and a button without a frame in the accent colour.
 *
 * Attributes: `workload` (default `summary`), `text` (replaces the workload's text),
 * `no-retry` (no button), `disabled` (the button waits), `lang` (else that of the
 * nearest element that has one). Slots: `icon`, and `actions` for more buttons. Parts:
 * `view`, `icon`, `text`, `button`. Custom properties: `--tidings-accent`,
 * `--tidings-icon`, `--tidings-text`, `--tidings-radius`.
 *
 * Fires `retry` when the button is pressed.
 */
export class TidingsErrorElement extends Base {
  /** The attributes whose change is shown at once. */
  static readonly observedAttributes = ["workload", "text", "no-retry", "disabled", "lang"];
  #texts: Texts | null = null;

  /** Texts from the server; without them the built-in ones are shown. Set it again after `load`. */
  get texts(): Texts | null {
    return this.#texts;
  }

  set texts(texts: Texts | null) {
    this.#texts = texts;
    this.#draw();
  }

  /** Called by the browser when the element is in the page. */
  connectedCallback(): void {
    if (!this.shadowRoot) {
      this.#takeEarlyTexts();
      const root = this.attachShadow({ mode: "open", delegatesFocus: true });
      root.innerHTML = template;
      addStyles(root);
      root.querySelector("button")!.addEventListener("click", () => {
        this.dispatchEvent(new CustomEvent("retry", { bubbles: true, composed: true }));
      });
    }
    this.#draw();
  }

  /** Called by the browser when an attribute has changed. */
  attributeChangedCallback(): void {
    this.#draw();
  }

  /** Texts that were set before the element was defined hide the setter. */
  #takeEarlyTexts(): void {
    const early = Object.getOwnPropertyDescriptor(this, "texts");
    if (!early) return;
    delete (this as { texts?: Texts | null }).texts;
    this.texts = early.value as Texts | null;
  }

  #draw(): void {
    const root = this.shadowRoot;
    if (!root) return;
    const tag = this.closest("[lang]")?.getAttribute("lang") || globalThis.navigator?.language || "en";
    const language = this.#texts?.language ?? builtInLanguage(tag);
    const text = (key: string) => this.#texts?.get(key) ?? builtInText(language, key);
    const view = root.querySelector<HTMLElement>(".view")!;
    view.lang = language;
    view.dir = directionOf(language);
    root.querySelector("p")!.textContent =
      this.getAttribute("text") || text(`ai_workload_${this.getAttribute("workload") || "summary"}_error`);
    const button = root.querySelector("button")!;
    button.textContent = text("ai_workload_retry_button");
    button.hidden = this.hasAttribute("no-retry");
    button.disabled = this.hasAttribute("disabled");
  }
}

/** A sheet made by script is fine with pages whose policy allows no inline styles; an element is for browsers without. */
function addStyles(root: ShadowRoot): void {
  if ("adoptedStyleSheets" in root && "replaceSync" in CSSStyleSheet.prototype) {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(styles);
    root.adoptedStyleSheets = [sheet];
    return;
  }
  root.prepend(Object.assign(document.createElement("style"), { textContent: styles }));
}

// Twice in one page happens, when two bundles bring it along.
if (globalThis.customElements && !customElements.get("tidings-error")) {
  customElements.define("tidings-error", TidingsErrorElement);
}

declare global {
  interface HTMLElementTagNameMap {
    "tidings-error": TidingsErrorElement;
  }
}
