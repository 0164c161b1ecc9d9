import { readObject, text } from "./event.js";

/**
 * Gives the bearer token for a request. With `refresh` the server has just refused the
 * last one: get a new one.
 */
export type GetToken = (request: { refresh: boolean }) => string | null | undefined | Promise<string | null | undefined>;

/** Where and how a client sends its requests. */
export interface HttpOptions {
  /** The server's address, such as `https://tidings.example`; "" for the page's own origin, "/path" for a place on it. */
  readonly baseUrl: string;
  /** The language of all texts, such as `nb` or `pt-BR`; without it the browser's. */
  readonly language?: string | undefined;
  readonly getToken?: GetToken | undefined;
  /** Sent with each request besides the client's own. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Replaces the global `fetch`. */
  readonly fetch?: typeof globalThis.fetch | undefined;
}

/** An answer that was not the wanted one. `title` and `detail` are texts for people; `message` is for developers. */
export class TidingsError extends Error {
  override readonly name = "TidingsError";
  readonly status: number;
  /** The server's stable name for what is wrong, such as `job_running`. */
  readonly code: string | null;
  readonly title: string | null;
  readonly detail: string | null;
  readonly requestId: string | null;
  /** The part of the request that is wrong. */
  readonly field: string | null;
  /** The job that is in the way. */
  readonly jobId: string | null;
  /** How long the server asks to wait; 0 when it does not say. */
  readonly retryAfterMs: number;

  /** Makes the error of an answer from its status and, as far as there is one, its problem document. */
  constructor(status: number, problem = "", retryAfterMs = 0) {
    const o = readObject(problem);
    const code = text(o, "code");
    const detail = text(o, "detail");
    super(`the server answered ${status}${code ? " " + code : ""}${detail ? ": " + detail : ""}`);
    this.status = status;
    this.code = code;
    this.title = text(o, "title");
    this.detail = detail;
    this.requestId = text(o, "request_id");
    this.field = text(o, "field");
    this.jobId = text(o, "job_id");
    this.retryAfterMs = retryAfterMs;
  }
}

/** What differs between requests. Headers without a value are not sent. */
export interface Request {
  readonly method: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON. */
  readonly json?: unknown;
  /** How long the answer may take to begin; without it there is no limit but the caller's. */
  readonly beginMs?: number;
}

/** An absolute URL, or a path on the page's own origin. */
const ADDRESS = /^(https?:\/\/[^/?#\s]+[^?#\s]*|(\/[^/?#\s][^?#\s]*)?|\/)$/i;

/** Sends requests with the client's token and language. */
export class Http {
  readonly #options: HttpOptions;
  readonly #base: string;

  constructor(options: HttpOptions) {
    // Any other would be asked for ever, in silence: a fetch that cannot begin looks like a network that is away.
    if (typeof options.baseUrl !== "string" || !ADDRESS.test(options.baseUrl)) {
      throw new TypeError(
        `baseUrl ${JSON.stringify(options.baseUrl)} is not an absolute http or https URL; ` +
          'write for example "https://tidings.example", or "" for the page\'s own origin',
      );
    }
    this.#options = options;
    this.#base = options.baseUrl.replace(/\/+$/, "");
  }

  /** Sends a request. A 401 is answered once, with a fresh token; the second one is the answer. */
  async send(request: Request, signal: AbortSignal): Promise<Response> {
    const response = await this.#sendOnce(request, signal, false);
    if (response.status !== 401 || !this.#options.getToken) return response;
    await response.body?.cancel();
    return this.#sendOnce(request, signal, true);
  }

  /**
   * Sends a request and returns its answer if that is 2xx or among `also`; any other is
   * a `TidingsError`. No answer within `limitMs` rejects, too.
   */
  async call(request: Request, limitMs: number, also: readonly number[] = []): Promise<{ response: Response; body: string }> {
    const controller = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    // Not only the fetch: a token that never comes must not hold the user up either.
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        reject(new Error(`no answer within ${limitMs} ms`));
        controller.abort();
      }, limitMs);
    });
    const answer = async () => {
      const response = await this.send(request, controller.signal);
      if (!response.ok && !also.includes(response.status)) throw await problemOf(response);
      return { response, body: await response.text() };
    };
    try {
      return await Promise.race([answer(), late]);
    } finally {
      clearTimeout(timer);
    }
  }

  async #sendOnce(request: Request, signal: AbortSignal, refresh: boolean): Promise<Response> {
    const headers = new Headers(this.#options.headers);
    for (const [name, value] of Object.entries(request.headers ?? {})) {
      if (value !== "") headers.set(name, value);
    }
    if (request.json !== undefined) headers.set("Content-Type", "application/json");
    if (this.#options.language) headers.set("Accept-Language", this.#options.language);
    const token = await this.#options.getToken?.({ refresh });
    if (token) headers.set("Authorization", `Bearer ${token}`);
    // The body is the caller's to drop; the wait for it to begin has a limit of its own.
    const controller = new AbortController();
    const late = request.beginMs === undefined ? undefined : setTimeout(() => controller.abort(), request.beginMs);
    const drop = () => {
      clearTimeout(late);
      controller.abort();
    };
    if (signal.aborted) drop();
    signal.addEventListener("abort", drop);
    const init: RequestInit = { method: request.method, headers, signal: controller.signal, cache: "no-store" };
    if (request.json !== undefined) init.body = JSON.stringify(request.json);
    try {
      return await (this.#options.fetch ?? globalThis.fetch)(this.#base + request.path, init);
    } finally {
      clearTimeout(late);
    }
  }
}

/** The media type of an answer, without parameters. */
export function mediaType(response: Response): string {
  return (response.headers.get("Content-Type") ?? "").split(";")[0]!.trim().toLowerCase();
}

/** Reads an answer as an error. The body is read only if it is a problem document: another may have no end. */
export async function problemOf(response: Response, status = response.status): Promise<TidingsError> {
  let body = "";
  try {
    if (mediaType(response) === "application/problem+json") body = await response.text();
    else await response.body?.cancel();
  } catch {
    // The status says enough.
  }
  return new TidingsError(status, body, retryAfter(response.headers));
}

/** Reads Retry-After in both of its forms; a date relative to the answer's own, so a wrong clock here does not matter. */
function retryAfter(headers: Headers): number {
  const value = headers.get("Retry-After") ?? "";
  if (/^[0-9]+$/.test(value)) return Number(value) * 1000;
  const at = Date.parse(value);
  const date = Date.parse(headers.get("Date") ?? "");
  return Number.isNaN(at) ? 0 : Math.max(at - (Number.isNaN(date) ? Date.now() : date), 0);
}
