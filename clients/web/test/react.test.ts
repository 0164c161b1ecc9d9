// @vitest-environment happy-dom
import { act, createElement, StrictMode, type JSX } from "react";
import { createRoot, type Root } from "react-dom/client";
import { renderToString } from "react-dom/server";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { subscribeSummaryStatus, type StatusSubscription } from "../src/index.js";
import { useCountdown, useDocument, useStatus, useSummaryStatus, type UseSummaryStatusOptions } from "../src/react.js";
import "../src/tidings-error.js";
import { builtInText } from "../src/texts.js";
import { FakeServer } from "./fake-server.js";

let server: FakeServer;
let root: Root;
let container: HTMLElement;
let current: StatusSubscription | null;

function View({ sessionId }: { sessionId: string }) {
  const { status, subscription } = useSummaryStatus({ baseUrl: "https://api.test", sessionId, fetch: server.fetch });
  current = subscription;
  return createElement("p", null, `${status.phase} ${status.connection}`);
}

const show = (sessionId: string) => act(() => root.render(createElement(StrictMode, null, createElement(View, { sessionId }))));

beforeEach(() => {
  vi.stubGlobal("IS_REACT_ACT_ENVIRONMENT", true);
  vi.useFakeTimers();
  server = new FakeServer();
  container = document.body.appendChild(document.createElement("div"));
  root = createRoot(container);
});

afterEach(() => {
  act(() => root.unmount());
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

/** The requests whose stream nobody has dropped. */
async function alive() {
  const requests = [];
  await vi.advanceTimersByTimeAsync(0);
  while (server.requests.length > 0) requests.push(server.requests.shift()!);
  return requests.filter((request) => !request.signal.aborted);
}

it("shows each status, and leaves one stream in strict mode", async () => {
  await show("abc-123");
  expect(container.textContent).toBe("loading reconnecting");
  const [request, ...others] = await alive();
  expect(others).toEqual([]);
  await act(async () => (await request!.stream()).event("completed"));
  expect(container.textContent).toBe("done closed");
});

it("starts over for another session, not for a new object, and ends with the component", async () => {
  await show("abc-123");
  const [first] = await alive();
  await show("abc-123");
  expect(await alive()).toEqual([]);
  await show("other");
  expect(first!.signal.aborted).toBe(true);
  const [second] = await alive();
  expect(second!.path).toBe("/api/v1/sessions/other/summary/status");
  expect(current?.getSnapshot().phase).toBe("loading");
  act(() => root.render(null));
  expect(second!.signal.aborted).toBe(true);
});

it("never shows one session what is known of another", async () => {
  const shown: string[] = [];
  function Watching({ sessionId }: { sessionId: string }) {
    const { status, subscription } = useSummaryStatus({ baseUrl: "https://api.test", sessionId, fetch: server.fetch });
    shown.push(`${sessionId} ${status.phase} ${subscription !== null}`);
    return null;
  }
  await act(() => root.render(createElement(Watching, { sessionId: "abc-123" })));
  const [request] = await alive();
  await act(async () => (await request!.stream()).event("completed"));
  expect(shown.at(-1)).toBe("abc-123 done true");
  shown.length = 0;
  await act(() => root.render(createElement(Watching, { sessionId: "other" })));
  expect(new Set(shown)).toEqual(new Set(["other loading false", "other loading true"]));
});

it("renders on a server without opening a stream", async () => {
  expect(renderToString(createElement(View, { sessionId: "abc-123" }))).toContain("loading");
  expect(await alive()).toEqual([]);
});

it("shows a subscription that outlives the view", async () => {
  const subscription = subscribeSummaryStatus({ baseUrl: "https://api.test", sessionId: "abc-123", fetch: server.fetch });
  const Detail = () => createElement("p", null, useStatus(subscription).phase);
  act(() => root.render(createElement(Detail)));
  const [request] = await alive();
  act(() => subscription.dismiss());
  expect(container.textContent).toBe("dismissed");
  act(() => root.render(null));
  expect(request!.signal.aborted).toBe(false);
  subscription.close();
});

it("draws the error view from its properties, and hears its retry", async () => {
  let retries = 0;
  const props: JSX.IntrinsicElements["tidings-error"] = { workload: "guidance", lang: "nb", "no-retry": false, onretry: () => retries++ };
  await act(() => root.render(createElement("tidings-error", props)));
  const view = container.querySelector("tidings-error")!;
  expect(view.shadowRoot!.querySelector("p")!.textContent).toBe(builtInText("nb", "ai_workload_guidance_error"));
  expect(view.shadowRoot!.querySelector("button")!.hidden).toBe(false);
  view.shadowRoot!.querySelector("button")!.click();
  expect(retries).toBe(1);
});

it("does nothing while it is not enabled, and calls the newest functions", async () => {
  const told: string[] = [];
  function Quiet(props: Partial<UseSummaryStatusOptions> & { name: string }) {
    const { status, subscription } = useSummaryStatus({
      baseUrl: "https://api.test", sessionId: "abc-123", fetch: server.fetch, ...props, onComplete: () => told.push(props.name),
    });
    return createElement("p", null, `${status.phase} ${subscription !== null}`);
  }
  await act(() => root.render(createElement(Quiet, { enabled: false, name: "first" })));
  expect(container.textContent).toBe("loading false");
  expect(await alive()).toEqual([]);
  await act(() => root.render(createElement(Quiet, { enabled: true, name: "second" })));
  const [request] = await alive();
  await act(() => root.render(createElement(Quiet, { enabled: true, name: "third" })));
  expect(await alive()).toEqual([]);
  await act(async () => (await request!.stream()).event("completed"));
  expect(told).toEqual(["third"]);
});

it("counts down whole seconds, and stays at 1 until the job goes on", async () => {
  const subscription = subscribeSummaryStatus({ baseUrl: "https://api.test", sessionId: "abc-123", fetch: server.fetch });
  function Left() {
    return createElement("p", null, String(useCountdown(subscription)));
  }
  await act(() => root.render(createElement(StrictMode, null, createElement(Left))));
  expect(container.textContent).toBe("null");
  const stream = await (await server.next()).stream();
  await act(() => stream.event("retrying", '{"retry_in_ms":2500}'));
  const shown = [container.textContent];
  for (let i = 0; i < 4; i++) {
    await act(() => vi.advanceTimersByTimeAsync(i === 0 ? 500 : 1_000));
    shown.push(container.textContent);
  }
  expect(shown).toEqual(["3", "2", "1", "1", "1"]);
  await act(() => stream.event("processing"));
  expect(container.textContent).toBe("null");
  subscription.close();
});

it("fetches the document at once, and again when a job is completed", async () => {
  const subscription = subscribeSummaryStatus({ baseUrl: "https://api.test", sessionId: "abc-123", fetch: server.fetch });
  function Title() {
    const { document, error } = useDocument(subscription);
    return createElement("p", null, `${document?.version ?? "none"} ${error === null ? "" : "failed"}`);
  }
  const stream = await (await server.next()).stream();
  await act(() => root.render(createElement(Title)));
  await act(async () => (await server.next()).reply(404, '{"code":"no_document"}'));
  expect(container.textContent).toBe("none ");
  await act(() => stream.event("completed"));
  await act(async () => (await server.next()).reply(200, '{"version":1}'));
  expect(container.textContent).toBe("1 ");
  subscription.close();
});
