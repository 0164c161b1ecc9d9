import { describe, expect, it } from "vitest";
import { SseParser, type Message } from "../src/parser.js";
import { createMachine, reduce, stateOf, type Effect, type Input, type Machine } from "../src/reducer.js";
import { vectorFiles } from "./vectors.js";

type Text = string | { parts: (string | { repeat: string; count: number })[] };

interface ParseCase {
  name: string;
  initial_last_event_id?: string;
  chunks: ({ utf8: string; repeat?: number } | { b64: string })[];
  expect: { id: string; event: string; data: Text }[];
  last_event_id: string;
  retry: number | null;
  dispatched_after_chunk?: number[];
}

function bytesOf(chunk: ParseCase["chunks"][number]): Uint8Array {
  if ("b64" in chunk) return Uint8Array.from(Buffer.from(chunk.b64, "base64"));
  return new TextEncoder().encode(chunk.utf8.repeat(chunk.repeat ?? 1));
}

function textOf(text: Text): string {
  if (typeof text === "string") return text;
  return text.parts.map((part) => (typeof part === "string" ? part : part.repeat.repeat(part.count))).join("");
}

function parse(c: ParseCase, chunks: Uint8Array[]) {
  const messages: Message[] = [];
  const parser = new SseParser(c.initial_last_event_id, { onMessage: (m) => messages.push(m) });
  const dispatched = chunks.map((chunk) => {
    parser.feed(chunk);
    return messages.length;
  });
  return { result: { messages, lastEventId: parser.lastEventId, retry: parser.retry }, dispatched };
}

describe.each(vectorFiles<{ cases: ParseCase[] }>("sse-parse"))("sse-parse", (file) => {
  it.each(file.cases)("$name", (c) => {
    const want = {
      messages: c.expect.map((m) => ({ ...m, data: textOf(m.data) })),
      lastEventId: c.last_event_id,
      retry: c.retry,
    };
    const chunks = c.chunks.map(bytesOf);
    const joined = Uint8Array.from(Buffer.concat(chunks));
    const asTheyAre = parse(c, chunks);
    expect(asTheyAre.result).toEqual(want);
    if (c.dispatched_after_chunk) expect(asTheyAre.dispatched).toEqual(c.dispatched_after_chunk);
    expect(parse(c, [joined]).result, "joined").toEqual(want);
    expect(parse(c, Array.from(joined, (byte) => Uint8Array.of(byte))).result, "byte by byte").toEqual(want);
  });
});

interface VectorState {
  phase: string;
  spinner: boolean;
  message_key: string | null;
  retry_attempt: number | null;
  can_retry: boolean;
  can_dismiss: boolean;
  connection: string;
  resubscribe_at_ms: number | null;
  last_event_id: string;
  outcome: string;
}

interface MachineFile {
  initial: { expect: VectorState; effects: Effect[] };
  cases: {
    name: string;
    session_id: string;
    steps: { input: { at_ms: number; kind: string } & Record<string, unknown>; expect: VectorState; effects: Effect[] }[];
  }[];
}

function written(m: Machine): VectorState {
  const s = stateOf(m);
  return {
    phase: s.phase,
    spinner: s.spinner,
    message_key: s.messageKey,
    retry_attempt: s.retryAttempt,
    can_retry: s.canRetry,
    can_dismiss: s.canDismiss,
    connection: s.connection,
    resubscribe_at_ms: s.resubscribeAtMs,
    last_event_id: s.lastEventId,
    outcome: s.outcome,
  };
}

describe.each(vectorFiles<MachineFile>("status-machine"))("status-machine", (file) => {
  it.each(file.cases)("$name", (c) => {
    let machine = createMachine(c.session_id);
    expect(written(machine)).toEqual(file.initial.expect);
    expect(file.initial.effects, "what a new machine is documented to want").toEqual(["subscribe"]);
    for (const [i, step] of c.steps.entries()) {
      const { at_ms, ...rest } = step.input;
      const next = reduce(machine, { atMs: at_ms, ...rest } as Input);
      machine = next.machine;
      expect({ state: written(machine), effects: next.effects }, `step ${i}`).toEqual({ state: step.expect, effects: step.effects });
    }
  });
});
