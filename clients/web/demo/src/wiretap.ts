/** Something seen on the wire. `at` is on the page's monotonic clock. */
export type Sight = { readonly at: number } & (
  | { readonly kind: "request"; readonly method: string; readonly path: string; readonly cursor: string }
  | { readonly kind: "answer"; readonly status: number; readonly path: string; readonly code: string }
  | { readonly kind: "line"; readonly text: string }
  | { readonly kind: "end"; readonly how: "whole" | "broken" | "left"; readonly path: string }
);

type Unseen = Sight extends infer S ? (S extends Sight ? Omit<S, "at"> : never) : never;

/**
 * A `fetch` for the client that shows what goes over the wire. It passes on the
 * very bytes it shows, when they come. It also sets the language of each request,
 * which is the page's and not the subscription's to change.
 */
export function wiretap(see: (sight: Sight) => void, language: () => string): typeof globalThis.fetch {
  const note = (sight: Unseen) => see({ ...sight, at: performance.now() } as Sight);
  return async (input, init) => {
    const path = String(input);
    const headers = new Headers(init?.headers);
    headers.set("Accept-Language", language());
    note({ kind: "request", method: init?.method ?? "GET", path, cursor: headers.get("Last-Event-ID") ?? "" });
    let response: Response;
    try {
      response = await fetch(path, { ...init, headers });
    } catch (error) {
      note({ kind: "end", how: init?.signal?.aborted ? "left" : "broken", path });
      throw error;
    }
    const type = response.headers.get("Content-Type") ?? "";
    if (!response.body || !type.startsWith("text/event-stream")) {
      note({ kind: "answer", status: response.status, path, code: type.includes("problem") ? await codeOf(response.clone()) : "" });
      return response;
    }
    note({ kind: "answer", status: response.status, path, code: "" });
    return new Response(shown(response.body, path, note, init?.signal), { status: response.status, headers: response.headers });
  };
}

async function codeOf(response: Response): Promise<string> {
  const problem: unknown = await response.json().catch(() => null);
  const code = problem && typeof problem === "object" ? (problem as Record<string, unknown>)["code"] : null;
  return typeof code === "string" ? code : "";
}

/** The same stream, its lines shown as they pass. */
function shown(body: ReadableStream<Uint8Array>, path: string, note: (sight: Unseen) => void, signal?: AbortSignal | null): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  return new ReadableStream({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        if (done) {
          note({ kind: "end", how: "whole", path });
          controller.close();
          return;
        }
        const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
        rest = lines.pop()!;
        for (const text of lines) note({ kind: "line", text });
        controller.enqueue(value);
      } catch (error) {
        note({ kind: "end", how: signal?.aborted ? "left" : "broken", path });
        controller.error(error);
      }
    },
    cancel: (reason) => reader.cancel(reason),
  });
}
