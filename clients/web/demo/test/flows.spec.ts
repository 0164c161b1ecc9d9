import { expect, test } from "./tidings.js";

test("it begins by itself: a spinner, the text of the API, then the summary", async ({ demo, page }) => {
  await page.goto(demo.url);
  const texts = await demo.messages("en");
  await expect(demo.screen.locator(".message")).toHaveText(texts["session_summary_compiling"]!);
  await expect(demo.screen.locator(".spinner")).not.toHaveClass(/resting/);
  await expect(demo.later).toHaveText(texts["session_see_later"]!);
  await expect(demo.call(1, 1)).toHaveClass(/running/);
  await expect(demo.title()).toContainText("pump two lost pressure");
  await expect(demo.screen.getByRole("listitem")).not.toHaveCount(0);
  await expect(demo.later).toHaveCount(0);
  await expect(demo.call(1, 1)).toHaveClass(/done/);
  await expect(page.locator("#facts")).toContainText("1 of 12");
  expect((await demo.events()).at(-1)).toBe("completed");
});

test("529 three times: both layers, a countdown, and run now", async ({ demo }) => {
  await demo.open();
  await demo.scenario("Overloaded").click();
  await expect(demo.runNow).toBeVisible();
  const texts = await demo.messages("en");
  await expect(demo.screen.locator(".message")).toHaveText(texts["ai_service_busy_retrying"]!);
  await expect(demo.later).toBeVisible();
  for (const call of [1, 2, 3]) await expect(demo.call(1, call)).toHaveAccessibleName(/^$|.*/), await expect(demo.call(1, call)).toHaveClass(/failed/);
  await expect(demo.call(1, 3)).toContainText("529 overloaded");
  await expect(demo.attempts.first().locator(".pause.over")).toHaveCount(2);
  const left = async () => Number.parseInt((await demo.screen.locator(".countdown").textContent()) ?? "");
  await expect(demo.screen.locator(".countdown")).toContainText("2/4");
  const first = await left();
  expect(first).toBeGreaterThan(20);
  expect(first).toBeLessThanOrEqual(30); // never above the plan
  await expect.poll(left).toBeLessThan(first);
  await demo.runNow.click();
  await expect(demo.call(2, 1)).toHaveClass(/running/);
  await expect(demo.title()).toBeVisible();
  await expect(demo.page.locator("#attempts .wait.over")).toContainText("did not wait");
  const events = await demo.events();
  expect(events.slice(events.indexOf("retrying"))).toEqual(
    ["retrying", "processing", "retrying", "processing", "retrying", "queued", "processing", "completed"]);
});

test("429: the provider's Retry-After is waited out inside the attempt", async ({ demo }) => {
  await demo.open();
  await demo.scenario("Too many requests").click();
  await expect(demo.attempts.first().locator(".pause.active")).toHaveCount(1);
  await expect(demo.screen.locator(".countdown")).toHaveText(/\d+ seconds/);
  await expect(demo.runNow).toHaveCount(0);
  await expect(demo.call(1, 1)).toContainText("429 too many requests");
  await expect(demo.title()).toBeVisible();
  await expect(demo.call(1, 2)).toHaveClass(/done/);
  const [told] = (await demo.data()).slice(-3);
  expect(told!["retry_in_ms"]).toBeGreaterThan(9_000);
  // By the worker's clock, which begins the wait with the answer: events have the times when Redis was told.
  const [first, second] = await demo.calls(String(told!["session_id"]));
  expect(Date.parse(second!.started_at) - Date.parse(first!.started_at)).toBeGreaterThanOrEqual(10_000);
});

test("a timeout: no second call in the attempt, the queue waits", async ({ demo }) => {
  await demo.open();
  await demo.scenario("Timeout").click();
  await expect(demo.runNow).toBeVisible();
  await expect(demo.call(1, 1)).toContainText("no answer in time");
  await expect(demo.call(1, 2)).toHaveClass(/ahead/);
  await demo.runNow.click();
  await expect(demo.title()).toBeVisible();
});

test("a bad key: an error at once that says whose it is to fix, and no button that would not help", async ({ demo }) => {
  await demo.open();
  await demo.scenario("Bad key").click();
  const texts = await demo.messages("en");
  await expect(demo.screen.getByRole("alert")).toContainText(texts["reason_auth"]!);
  await expect(demo.later).toBeVisible();
  await expect(demo.call(1, 1)).toContainText("401 key refused");
  expect((await demo.events()).filter((e) => e === "retrying")).toEqual([]);
  await expect(demo.screen.getByRole("button", { name: texts["ai_workload_retry_button"]! })).toHaveCount(0);
});

test("a killed stream comes back with the last id and misses nothing", async ({ demo }) => {
  await demo.open();
  await expect(demo.title()).toBeVisible(); // else the first run is what is cut
  await demo.scenario("Kill the stream").click();
  await expect(demo.raw.locator(".broken")).toHaveText(/connection lost/);
  await expect(demo.news).toContainText("comes back");
  await expect(demo.raw.locator(".request .more")).toHaveText(/Last-Event-ID: \d+/);
  await expect(demo.raw.locator(".missed").first()).toBeVisible();
  await expect(demo.title()).toBeVisible();
  const cursor = Number((await demo.raw.locator(".request .more").textContent())!.replace(/\D/g, ""));
  const after = demo.raw.locator(".broken ~ .frame");
  const names = await after.locator(".event span").allTextContents();
  expect(names).toEqual(["retrying", "processing", "completed"]); // all that follows the one it had
  const ids = (await after.locator(".id span").allTextContents()).map(Number);
  expect([cursor, ...ids]).toEqual([...new Set([cursor, ...ids])].sort((a, b) => a - b));
  expect((await demo.ids()).filter((id) => id <= cursor).at(-1)).toBe(cursor);
});

test("killing cuts what is open, whichever scenario it is", async ({ demo }) => {
  await demo.open();
  await demo.scenario("Timeout").click();
  await expect(demo.runNow).toBeVisible();
  await demo.scenario("Kill the stream").click();
  await expect(demo.raw.locator(".broken")).toHaveCount(1);
  await expect(demo.scenario("Timeout")).toHaveClass(/chosen/);
  await expect(demo.raw.locator(".request .more")).toHaveText(/Last-Event-ID/);
  await expect(demo.news).toContainText("is back");
  await demo.runNow.click();
  await expect(demo.title()).toBeVisible();
});

test("I'll see this later: the view goes, the stream goes on, a badge says when it is there", async ({ demo }) => {
  await demo.open();
  await demo.scenario("Overloaded").click();
  await expect(demo.runNow).toBeVisible();
  await demo.later.click();
  const texts = await demo.messages("en");
  const card = demo.screen.getByRole("button");
  await expect(card).toContainText(texts["status_retrying"]!);
  await card.click(); // and back, in the midst of it
  await expect(demo.screen.locator(".message")).toHaveText(texts["ai_service_busy_retrying"]!);
  await expect(demo.runNow).toBeVisible();
  await demo.later.click();
  await demo.runNow.click();
  await expect(card).toContainText(texts["outcome_completed"]!);
  await expect(demo.title()).toHaveCount(0);
  await card.click();
  await expect(demo.title()).toBeVisible();
});

test("later is there on an error, too", async ({ demo }) => {
  await demo.open();
  await demo.scenario("Provider’s fault").click();
  await expect(demo.screen.getByRole("alert")).toBeVisible();
  await demo.later.click();
  const texts = await demo.messages("en");
  await expect(demo.screen.getByRole("button")).toContainText(texts["status_error"]!);
  await demo.screen.getByRole("button").click();
  await demo.screen.getByRole("button", { name: texts["ai_workload_retry_button"]! }).click();
  await expect(demo.title()).toBeVisible();
});

test("after 30 s the spinner rests, and the text says that it takes longer", async ({ demo, page }) => {
  await page.clock.install();
  await demo.open();
  await demo.scenario("Timeout").click();
  await expect(demo.call(1, 1)).toHaveClass(/running/);
  await page.clock.fastForward(30_000);
  const texts = await demo.messages("en");
  await expect(demo.screen.locator(".message")).toHaveText(texts["session_summary_taking_longer"]!);
  await expect(demo.screen.locator(".spinner")).toHaveClass(/resting/);
  await expect(demo.later).toBeVisible();
  await expect(demo.runNow).toBeVisible(); // the stream goes on
  await demo.runNow.click();
  await expect(demo.title()).toBeVisible();
});

test("a text of one's own", async ({ demo, page }) => {
  await demo.open();
  await page.getByLabel("Text to summarize").fill("The library opens on Sunday from now on. Volunteers run the desk. The children’s corner has new shelves.");
  await demo.scenario("Answers").click();
  await expect(demo.screen.locator(".excerpt")).toContainText("The library opens");
  await expect(demo.title()).toContainText("The library opens on Sunday");
  await page.getByLabel("Text to summarize").fill(`A very long address: ${"x".repeat(200)}. It stays on the screen.`);
  await demo.scenario("Answers").click();
  await expect(demo.title()).toContainText("A very long");
  expect(await demo.screen.locator(".summary").evaluate((e) => e.scrollWidth - e.clientWidth)).toBe(0);
  await page.getByLabel("Phone’s language").selectOption("de");
  await expect(page.getByLabel("Text to summarize")).toHaveValue(/^A very long/); // one's own stays
  await page.getByRole("button", { name: "Use the sample" }).click();
  await expect(page.getByLabel("Text to summarize")).toHaveValue(/^Die Nachtschicht/);
});

test("a server that is away is told, and the user can try again", async ({ demo, page }) => {
  await demo.open();
  const away = /\/sessions\/[^/]+\/summary(\/status)?$/;
  await page.route(away, (route) => route.abort());
  await demo.scenario("Answers").click();
  const texts = await demo.messages("en");
  await expect(demo.screen.getByRole("alert")).toContainText(texts["ai_workload_summary_error"]!);
  await expect(demo.news).toContainText("does not answer");
  await page.unroute(away);
  await expect(demo.news).toContainText("answers again");
  await demo.screen.getByRole("button", { name: texts["ai_workload_retry_button"]! }).click();
  await expect(demo.title()).toBeVisible();
});

test("run now without an answer is told, and the wait goes on", async ({ demo, page }) => {
  await demo.open();
  await demo.scenario("Timeout").click();
  await page.route("**/summary/retry", (route) => route.abort());
  await demo.runNow.click();
  await expect(demo.news).toContainText("does not answer");
  await page.unroute("**/summary/retry");
  await demo.runNow.click();
  await expect(demo.title()).toBeVisible();
});

test("a server that comes back without its memory: the timeline stops, and says why", async ({ demo, page }) => {
  await demo.open();
  await demo.scenario("Timeout").click();
  await expect(demo.runNow).toBeVisible();
  await page.route("**/summary/status", (route) => route.fulfill({ contentType: "text/event-stream",
    body: 'id: 1\nevent: idle\ndata: {"stays_open":true,"reset":true}\n\n' }));
  await demo.scenario("Kill the stream").click();
  await expect(demo.news).toContainText("does not know this job");
  await expect(demo.runNow).toHaveCount(0);
  await expect(demo.page.locator("#attempts .wait.over")).toContainText("The queue is gone");
  await page.unroute("**/summary/status");
  await demo.scenario("Answers").click();
  await expect(demo.title()).toBeVisible();
});

test("an attempt that is put back before its first call has not begun", async ({ demo, page }) => {
  await demo.open();
  await demo.scenario("Timeout").click();
  await expect(demo.runNow).toBeVisible();
  await page.route("**/summary/status", (route) => route.fulfill({ contentType: "text/event-stream", body:
    'event: processing\ndata: {"job_id":"other","attempt":2,"call":1,"reset":true}\n\n' +
    'event: queued\ndata: {"job_id":"other","attempt":1,"reason":"overloaded","not_before":"2026-11-29T12:00:04Z"}\n\n' }));
  await demo.scenario("Kill the stream").click();
  await expect(demo.news).toContainText("no room");
  await expect(demo.attempts.nth(1)).toHaveClass(/ahead/);
});

test("one stream for a submission, and none for an empty field", async ({ demo, page }) => {
  const streams: string[] = [];
  page.on("request", (request) => { if (request.url().endsWith("/summary/status")) streams.push(request.url()); });
  await demo.open();
  await expect(demo.title()).toBeVisible();
  expect(streams).toHaveLength(1);
  await page.getByLabel("Text to summarize").fill("  ");
  await demo.scenario("Answers").click();
  await expect(page.locator("#hint")).toContainText("nothing to summarize");
  await expect(page.getByLabel("Text to summarize")).toBeFocused();
  await expect(demo.title()).toBeVisible(); // what was there stays
  expect(streams).toHaveLength(1);
});

test("three sessions on one stream", async ({ demo, page }) => {
  const streams: string[] = [];
  page.on("request", (request) => { if (request.url().includes("/status/stream?")) streams.push(request.url()); });
  await demo.open();
  const texts = await demo.messages("en");
  await page.getByRole("button", { name: "Start three" }).click();
  const rows = page.locator("#sessions li");
  await expect(rows).toHaveCount(3);
  await expect(rows.nth(0)).toContainText(texts["status_completed"]!);
  await expect(rows.nth(1)).toContainText(texts["status_completed"]!);
  await expect(rows.nth(2)).toContainText(texts["status_error"]!);
  expect(streams).toHaveLength(1);
});

test("on a phone's screen a tap on a fault shows the phone", async ({ demo, page }) => {
  await page.setViewportSize({ width: 390, height: 844 });
  await demo.open();
  await expect(demo.title()).toBeVisible();
  await demo.scenario("Timeout").click();
  await expect(demo.screen.locator(".spinner")).toBeInViewport();
  await expect(demo.later).toBeInViewport();
});
