// Builds the demo page into the Go server, which embeds it. `node build.mjs` writes
// the files; the test of staleness asks for the same bytes without writing them.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const web = join(here, "..");
export const target = join(web, "../../server/demo");

/** The files the page is made from: its own, and the client's. */
function sources() {
  const files = (dir) => readdirSync(dir, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(web, join(entry.parentPath, entry.name)).split(sep).join("/"));
  return [...files(join(here, "src")), ...files(join(web, "src")), "demo/build.mjs"].sort();
}

/** A fingerprint of the sources. server/demo_test.go computes the same without Node. */
function fingerprint() {
  const hash = createHash("sha256");
  for (const name of sources()) hash.update(`${name}\0`).update(readFileSync(join(web, name))).update("\0");
  return hash.digest("hex");
}

/** The built files, by name. */
export async function builtFiles() {
  const bundle = (entry, options) => build({
    absWorkingDir: web, entryPoints: [entry], bundle: true, minify: true, write: false, charset: "utf8",
    legalComments: "none", logLevel: "warning", ...options,
  }).then((result) => result.outputFiles[0].text);
  const source = (name) => readFileSync(join(here, "src", name), "utf8");
  return {
    "index.html": source("index.html").replace("SOURCES", fingerprint()),
    "icon.svg": source("icon.svg"),
    "demo.css": await bundle("demo/src/demo.css", { target: ["chrome111", "firefox113", "safari16.4"] }),
    "demo.js": await bundle("demo/src/main.ts", { format: "iife", target: "es2022" }),
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  mkdirSync(target, { recursive: true });
  for (const [name, text] of Object.entries(await builtFiles())) writeFileSync(join(target, name), text);
}
