import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test, type Demo } from "./tidings.js";

/** Writes a picture with as few colours as it takes, so that a clone stays small. */
async function picture(name: string, taken: Promise<Buffer>): Promise<void> {
  const file = fileURLToPath(new URL(`../../../../docs/images/${name}.png`, import.meta.url));
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, execFileSync("pngquant", ["--speed", "1", "--strip", "96", "-"], { input: await taken }));
}

/** The first attempt has failed and the queue waits. */
async function waiting(demo: Demo): Promise<void> {
  await demo.open();
  await expect(demo.title()).toBeVisible();
  await demo.scenario("Overloaded").click();
  await expect(demo.screen.locator(".countdown")).toHaveText("24 seconds");
}

for (const scheme of ["light", "dark"] as const) {
  test(`the whole page, ${scheme}`, async ({ demo, page }) => {
    await page.emulateMedia({ colorScheme: scheme });
    await waiting(demo);
    await picture(`demo-${scheme}`, page.screenshot({ fullPage: true }));
  });
}

test("the phone: an error, Arabic, and a summary", async ({ demo, page }) => {
  const phone = page.locator(".phone");
  await demo.open();
  await page.evaluate(() => { // the README has a paper of its own
    document.body.style.background = "none";
    document.querySelector<HTMLElement>(".phone")!.style.boxShadow = "none";
  });
  await expect(demo.title()).toBeVisible();
  await picture("phone-summary", phone.screenshot({ omitBackground: true, animations: "disabled" }));
  await demo.scenario("Bad key").click();
  await expect(demo.screen.getByRole("alert")).toBeVisible();
  await page.mouse.move(0, 0);
  await picture("phone-error", phone.screenshot({ omitBackground: true }));
  await page.getByLabel("Phone’s language").selectOption("ar");
  await demo.scenario("Overloaded").click();
  await expect(demo.runNow).toBeVisible();
  await expect(demo.screen).toHaveAttribute("dir", "rtl");
  await picture("phone-arabic", phone.screenshot({ omitBackground: true }));
});
