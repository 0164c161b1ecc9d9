import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const file = (name: string) => fileURLToPath(new URL(`../${name}`, import.meta.url));
const manifest = JSON.parse(readFileSync(file("package.json"), "utf8")) as {
  dependencies?: object;
  exports: Record<string, { import: string; require: string }>;
};

it("needs nothing at run time", () => expect(manifest.dependencies).toBeUndefined());

it("is locked to packages, not to the registry they came from", () => {
  const lock = readFileSync(file("package-lock.json"), "utf8");
  expect(lock).not.toMatch(/"resolved"|registry\./);
});

it.each(Object.entries(manifest.exports))("has a source for %s", (_, { import: code, require: commonJs }) => {
  const source = code.replace("./dist/", "src/").replace(/\.js$/, ".ts");
  expect(existsSync(file(source)), source).toBe(true);
  expect(commonJs).toBe(code.replace("./dist/", "./dist/cjs/"));
});
