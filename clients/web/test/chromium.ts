import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

/** A Chromium that is installed here; none is ever downloaded. */
export function chromiumPath(): string {
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
  throw new Error(`these tests need a Chromium: none of ${names.join(", ")} is on the PATH`);
}

/** Chromium's sandbox does not work for root. */
export const chromiumArgs = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
