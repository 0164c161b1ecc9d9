import { expect, test } from "./tidings.js";

test("16 languages by their own names, each with the API's texts", async ({ demo, page }) => {
  await demo.open();
  const choice = page.getByLabel("Phone’s language");
  const names = await choice.locator("option").allTextContents();
  expect(names).toHaveLength(16);
  expect(names).toEqual(expect.arrayContaining(["العربية", "Norsk bokmål", "日本語", "简体中文"]));
  await demo.scenario("Overloaded").click();
  await expect(demo.runNow).toBeVisible();
  for (const option of await choice.locator("option").all()) {
    const tag = (await option.getAttribute("value"))!;
    const texts = await demo.messages(tag);
    await choice.selectOption(tag);
    await expect(demo.screen.locator(".message")).toHaveText(texts["ai_service_busy_retrying"]!);
    await expect(demo.later).toHaveText(texts["session_see_later"]!);
    await expect(demo.screen).toHaveAttribute("lang", tag);
    await expect(demo.screen).toHaveAttribute("dir", tag === "ar" ? "rtl" : "ltr");
  }
});

test("Arabic runs from right to left, from the wait to the summary", async ({ demo, page }) => {
  await demo.open();
  await page.getByLabel("Phone’s language").selectOption("ar");
  const texts = await demo.messages("ar");
  await demo.scenario("Provider’s fault").click();
  const alert = demo.screen.getByRole("alert");
  await expect(alert).toContainText(texts["ai_workload_summary_error"]!);
  await expect(alert).toHaveCSS("direction", "rtl");
  await demo.screen.getByRole("button", { name: texts["ai_workload_retry_button"]! }).click();
  await expect(demo.title()).toContainText("المضخة");
  await expect(demo.title()).toHaveCSS("direction", "rtl");
  const phone = (await demo.screen.boundingBox())!;
  const mark = (await demo.screen.locator(".points li").first().boundingBox())!;
  expect(mark.x + mark.width).toBeGreaterThan(phone.x + phone.width - 40); // they start on the right
  await expect(page.locator("html")).toHaveCSS("direction", "ltr"); // the operators' side stays
});

test("a browser's language is the phone's first one", async ({ demo, browser }) => {
  const page = await browser.newPage({ locale: "nn-NO" });
  await page.goto(demo.url);
  await expect(page.getByLabel("Phone’s language")).toHaveValue("nb");
  await expect(page.locator("#screen .later")).toHaveText((await demo.messages("nb"))["session_see_later"]!);
  await page.close();
});

test("dark and light: the system's wish, the button's word, and it is kept", async ({ demo, page }) => {
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await page.emulateMedia({ colorScheme: "light" });
  await demo.open();
  const light = await paper();
  await page.emulateMedia({ colorScheme: "dark" });
  const dark = await paper();
  expect(dark).not.toBe(light);
  const button = page.getByRole("button", { name: "Dark colours" });
  await expect(button).toHaveAttribute("aria-pressed", "true");
  await button.click();
  expect(await paper()).toBe(light);
  await page.reload();
  await expect(button).toHaveAttribute("aria-pressed", "false");
  expect(await paper()).toBe(light);
});

test("by keyboard alone: a fault, later, back, run now, the summary", async ({ demo, page }) => {
  await demo.open();
  const focused = page.locator(":focus");
  const tabTo = async (name: RegExp) => {
    for (let i = 0; i < 40; i++) {
      await page.keyboard.press("Tab");
      if ((await focused.count()) === 0) continue; // around the end of the page
      const label = await focused.evaluate((e) => e.getAttribute("aria-label") ?? (e.textContent || e.id));
      expect(await focused.evaluate((e) => getComputedStyle(e).outlineStyle), `${label} shows its focus`).not.toBe("none");
      if (name.test(label)) return;
    }
    throw new Error(`nothing like ${name} can be reached`);
  };
  await tabTo(/Overloaded/);
  await page.keyboard.press("Enter");
  await expect(demo.runNow).toBeVisible();
  await tabTo(/see this later/);
  await page.keyboard.press("Space");
  await expect(demo.screen.locator(".card")).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(demo.later).toBeFocused();
  await tabTo(/Run now: attempt 2/);
  await page.keyboard.press("Enter");
  await expect(demo.title()).toBeVisible();
  await tabTo(/Overloaded/);
  await tabTo(/Done\. The result is ready/); // the summary itself, so that it can be scrolled
  await tabTo(/line by line/); // and the raw stream
});

test("screen readers hear each change once, and no countdown", async ({ demo, page }) => {
  await demo.open();
  await page.evaluate(() => {
    const heard: string[] = [];
    Object.assign(window, { heard });
    for (const id of ["phone-status", "news"]) {
      new MutationObserver(() => {
        const text = document.getElementById(id)!.textContent;
        if (text) heard.push(text);
      }).observe(document.getElementById(id)!, { childList: true, characterData: true, subtree: true });
    }
  });
  await demo.scenario("Overloaded").click();
  await expect(demo.runNow).toBeVisible();
  const seconds = demo.screen.locator(".countdown");
  const first = await seconds.textContent();
  await expect(seconds).not.toHaveText(first!);
  const next = await seconds.textContent();
  await expect(seconds).not.toHaveText(next!);
  const heard = await page.evaluate(() => (window as unknown as { heard: string[] }).heard);
  expect(heard.filter((t) => t.includes("attempt 2/4"))).toHaveLength(1);
  expect(heard.filter((t) => t.startsWith("The queue") || t.includes("The queue starts"))).toHaveLength(1);
});

for (const scheme of ["light", "dark"] as const) {
  test(`axe finds nothing in any state, ${scheme}`, async ({ demo, page }) => {
    await page.emulateMedia({ colorScheme: scheme });
    await demo.open();
    await demo.accessible("waiting");
    await expect(demo.title()).toBeVisible();
    await demo.accessible("done");
    await demo.scenario("Overloaded").click();
    await expect(demo.runNow).toBeVisible();
    await demo.accessible("retrying");
    await demo.later.click();
    await demo.accessible("later");
    await demo.scenario("Bad key").click();
    await expect(demo.screen.getByRole("alert")).toBeVisible();
    await demo.accessible("error");
    await page.getByLabel("Phone’s language").selectOption("ar");
    await page.setViewportSize({ width: 320, height: 640 });
    await expect(demo.screen.getByRole("alert")).toBeVisible();
    await demo.scenario("Kill the stream").click();
    await expect(demo.raw.locator(".missed").first()).toBeVisible();
    await demo.accessible("narrow, Arabic, after a cut");
  });
}

for (const [name, width] of [["320 px", 320], ["a window of 1280 px at 200 %", 640], ["a tablet", 800]] as const) {
  test(`nothing is cut off or scrolls sideways at ${name}`, async ({ demo, page }) => {
    await page.setViewportSize({ width, height: 700 });
    await demo.open();
    await demo.scenario("Overloaded").click();
    await expect(demo.runNow).toBeVisible();
    for (const language of ["en", "de", "fi", "ar"]) {
      await page.getByLabel("Phone’s language").selectOption(language);
      await expect(demo.screen).toHaveAttribute("lang", language);
      const wide = await page.evaluate(() => {
        const out = [...document.querySelectorAll<HTMLElement>("body *")].filter((e) => {
          const box = e.getBoundingClientRect();
          return !e.closest(".unseen") && box.width > 0 && (box.right > innerWidth + 0.5 || box.left < -0.5);
        });
        return [document.documentElement.scrollWidth - innerWidth, ...out.map((e) => e.outerHTML.slice(0, 80))];
      });
      expect(wide, language).toEqual([0]);
    }
    await demo.runNow.click();
    await expect(demo.title()).toBeVisible();
  });
}

for (const width of [1184, 1280, 1440]) {
  test(`the timeline's columns keep out of each other at ${width} px`, async ({ demo, page }) => {
    await page.setViewportSize({ width, height: 800 });
    await demo.open();
    await demo.scenario("Overloaded").click();
    await expect(demo.runNow).toBeVisible();
    await expect(demo.call(1, 3)).toContainText("529 overloaded"); // its status comes later, from the ledger
    const cells = demo.attempts.first().locator(".name, .calls, .verdict, .when");
    const tooWide = () => cells.evaluateAll((all) => all.filter((e) => e.scrollWidth > e.clientWidth && e.clientWidth > 0).map((e) => `${e.className}: ${e.textContent}`));
    await expect.poll(tooWide).toEqual([]); // a bar may still be growing into its place
  });
}

test("less motion for who asks for it: nothing moves but a slow spinner", async ({ demo, page }) => {
  await page.emulateMedia({ reducedMotion: "reduce" });
  await demo.open();
  await demo.scenario("Overloaded").click();
  await expect(demo.runNow).toBeVisible();
  const running = await page.evaluate(() => document.getAnimations().filter((a) => a.playState === "running").map((a) => (a as CSSAnimation).animationName));
  expect(running.filter((name) => name !== "turn")).toEqual([]);
});
