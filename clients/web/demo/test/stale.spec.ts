import { expect, test } from "@playwright/test";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { builtFiles, target } from "../build.mjs";

test("the built page in the server is what its sources make", async () => {
  const built = await builtFiles();
  expect(readdirSync(target).sort(), "run npm run build:demo").toEqual(Object.keys(built).sort());
  for (const [name, text] of Object.entries(built)) {
    expect(readFileSync(join(target, name), "utf8") === text, `${name} is older than its sources: run npm run build:demo`).toBe(true);
  }
});
