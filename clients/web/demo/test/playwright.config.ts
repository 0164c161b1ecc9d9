import { defineConfig } from "@playwright/test";
import { accessSync, constants } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";

/** A Chromium that is installed here; none is ever downloaded. */
function chromium(): string {
  const names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
  for (const dir of (process.env["PATH"] ?? "").split(delimiter)) {
    for (const name of names) {
      try {
        accessSync(join(dir, name), constants.X_OK);
        return join(dir, name);
      } catch {
        // the next one
      }
    }
  }
  throw new Error(`the demo's tests need a Chromium: none of ${names.join(", ")} is on the PATH`);
}

export default defineConfig({
  testDir: ".",
  testMatch: "*.spec.ts",
  globalSetup: "./build.ts",
  outputDir: join(tmpdir(), "tidings-demo-results"),
  fullyParallel: true,
  workers: 2,
  forbidOnly: true,
  reporter: "list",
  timeout: 60_000,
  expect: { timeout: 20_000 },
  use: {
    locale: "en-GB",
    viewport: { width: 1440, height: 960 },
    launchOptions: { executablePath: chromium(), args: process.getuid?.() === 0 ? ["--no-sandbox"] : [] },
  },
});
