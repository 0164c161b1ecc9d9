import { defineConfig } from "@playwright/test";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromiumArgs, chromiumPath } from "../../test/chromium.js";

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
    launchOptions: { executablePath: chromiumPath(), args: chromiumArgs },
  },
});
