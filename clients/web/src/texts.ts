import { builtInTexts } from "./built-in-texts.js";
import { readObject, text } from "./event.js";
import { Http, type HttpOptions } from "./http.js";

const LIMIT = 30_000;

/**
 * The server's texts in one language, with those an app cannot do without built in:
 * they can be shown before the first `load` and without a network.
 */
export class Texts {
  readonly #http: Http;
  readonly #builtInLanguage: string;
  #fetched: Readonly<Record<string, unknown>> = {};
  #fetchedLanguage: string | null = null;
  #etag = "";

  /** `language` is a tag such as `nb` or `pt-BR`; the browser's own by default. */
  constructor(options: HttpOptions) {
    this.#http = new Http(options);
    this.#builtInLanguage = builtInLanguage(options.language ?? globalThis.navigator?.language ?? "en");
  }

  /** Fetches the texts, or learns that those it has are still the newest. When it rejects, all stays as it was. */
  async load(): Promise<void> {
    const { response, body } = await this.#http.call(
      { method: "GET", path: "/api/v1/messages", headers: { Accept: "application/json", "If-None-Match": this.#etag } },
      LIMIT,
      [304],
    );
    if (response.status === 304) return;
    const answer = readObject(body);
    this.#fetched = readObject(JSON.stringify(answer["messages"] ?? {}));
    this.#fetchedLanguage = text(answer, "language");
    this.#etag = response.headers.get("ETag") ?? "";
  }

  /** The text of a key: the server's, else the built-in one, else the English one, else the key. "" for null. */
  get(key: string | null): string {
    if (key === null) return "";
    return text(this.#fetched, key) || builtInText(this.#builtInLanguage, key);
  }

  /** The language of the texts: what the server chose, before the first `load` that of the built-in ones. */
  get language(): string {
    return this.#fetchedLanguage ?? this.#builtInLanguage;
  }

  /** The direction the language is written in. */
  get direction(): "ltr" | "rtl" {
    return directionOf(this.language);
  }
}

/** The language with built-in texts that a tag asks for, English if there is none. */
export function builtInLanguage(tag: string): string {
  const base = tag.toLowerCase().split(/[-_]/)[0]!;
  const language = base === "no" || base === "nn" ? "nb" : base;
  return Object.hasOwn(builtInTexts, language) ? language : "en";
}

/** A text that is built in, in English where the language lacks it, else the key itself. */
export function builtInText(tag: string, key: string): string {
  return builtInTexts[builtInLanguage(tag)]?.[key] ?? builtInTexts["en"]?.[key] ?? key;
}

/** The direction a language is written in. */
export function directionOf(language: string): "ltr" | "rtl" {
  return builtInLanguage(language) === "ar" ? "rtl" : "ltr";
}
