import { defineConfig } from "@playwright/test";
import tests from "./playwright.config.js";

/** Takes the README's pictures; see the demo's README for the fonts it wants. */
export default defineConfig({
  ...tests,
  testMatch: "screenshots.ts",
  workers: 1,
  use: { ...tests.use, viewport: { width: 1360, height: 880 }, deviceScaleFactor: 1.5 },
});
