import { describe, expect, it } from "vitest";
import { SseParser, StreamTooLongError, type Message } from "../src/parser.js";

const bytes = (text: string) => new TextEncoder().encode(text);

function parse(chunks: Iterable<Uint8Array>) {
  const messages: Message[] = [];
  const parser = new SseParser("", { onMessage: (m) => messages.push(m) });
  for (const chunk of chunks) parser.feed(chunk);
  return { messages, lastEventId: parser.lastEventId, retry: parser.retry };
}

it("reads from a buffer that is used again", () => {
  const buffer = new Uint8Array(8);
  const text = bytes("data: from one buffer\n\n");
  const chunks = (function* () {
    for (let at = 0; at < text.length; at += buffer.length) {
      const part = text.subarray(at, at + buffer.length);
      buffer.set(part);
      yield buffer.subarray(0, part.length);
    }
  })();
  expect(parse(chunks).messages).toEqual([{ id: "", event: "message", data: "from one buffer" }]);
});

it("says the same of a stream however it is cut", () => {
  const stream = Uint8Array.from([
    ...[0xef, 0xbb, 0xbf], ...bytes("id: 1\r\nevent: x\rdata: ø🙂"), ...[0xe2, 0x82], ...bytes("\n\n\ndata\r\r\nretry: 20\nid: 2\n\ndata: cut"),
  ]);
  const whole = parse([stream]);
  expect(whole.messages).toHaveLength(2);
  for (let size = 1; size < stream.length; size++) {
    const chunks = [];
    for (let at = 0; at < stream.length; at += size) chunks.push(stream.subarray(at, at + size));
    expect(parse(chunks), `chunks of ${size}`).toEqual(whole);
  }
});

describe("stops at its limit", () => {
  it.each([
    ["line", "data: 123456789012"],
    ["block", "data: 12345678\ndata: 12345678\n"],
  ])("of a %s", (_, text) => {
    const parser = new SseParser("", { limit: 16 });
    expect(() => parser.feed(bytes(text))).toThrow(StreamTooLongError);
    expect(() => parser.feed(bytes("\n"))).toThrow(StreamTooLongError);
  });
});
